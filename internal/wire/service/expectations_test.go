package service

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/base/expect"
)

// answering is a client whose answers are given.
type answering struct{ answers []Answer }

func (a *answering) Call(_ context.Context, _ *Request, answer *Answer) error {
	*answer = a.answers[0]
	a.answers = append(a.answers[1:], a.answers[0])
	return nil
}

func (*answering) Close() error { return nil }

func callerOf(t *testing.T, d *Definition, answers ...Answer) *Caller {
	t.Helper()
	expected, err := d.Expectations()
	if err != nil {
		t.Fatal(err)
	}
	d.Requests = []Request{{Method: "GET", Path: "/"}}
	c := d.NewCaller(&answering{answers}, d.FixedSource(Share{Of: 1}))
	c.CheckAnswers(expected, 1)
	return c
}

func TestTheUsualExpectationIsReplacedOnlyByTheStatus(t *testing.T) {
	for _, test := range []struct {
		wire   Wire
		status int
		expect string
		well   bool
	}{
		{HTTP1, 404, "", false},
		{HTTP1, 404, "size >= 0", false},
		{HTTP1, 404, "status == 404", true},
		{HTTP1, 200, "status == 404", false},
		{GRPC, int(codes.NotFound), "size >= 0", false},
		{GRPC, int(codes.NotFound), "code == NotFound", true},
		{GRPC, int(codes.OK), "latency >= 0ns", true},
	} {
		d := &Definition{Wire: test.wire}
		if test.expect != "" {
			d.Expect = []string{test.expect}
		}
		c := callerOf(t, d, Answer{Status: test.status})
		err := c.Call(t.Context())
		if err == nil {
			err = c.Check()
		}
		if (err == nil) != test.well {
			t.Errorf("%s, %s: %v", test.wire, test.expect, err)
		}
	}
}

// Only the bodies of the sample are checked, and the counts show both shares.
func TestASampleOfBodies(t *testing.T) {
	d := &Definition{Wire: HTTP1, Expect: []string{"size == 1", "json(.ok)"}, ExpectSample: 0.25}
	c := callerOf(t, d, Answer{Status: 200, Bytes: 1, Body: []byte(`{}`)}, Answer{Status: 200, Bytes: 2, Body: []byte(`{}`)})
	failed := map[string]int{}
	const calls = 2000
	for range calls {
		if err := c.Call(t.Context()); err != nil {
			t.Fatal(err)
		}
		if unmet, is := errors.AsType[*expect.UnmetError](c.Check()); is {
			failed[unmet.Condition]++
		}
	}
	if failed["size == 1"] != calls/2 {
		t.Errorf("%d answers of %d fail for their size, want half", failed["size == 1"], calls)
	}
	if share := float64(failed["json(.ok)"]) / (calls / 2); share < 0.2 || share > 0.3 {
		t.Errorf("%g of the bodies were looked at, want a quarter", share)
	}
	told := c.CheckingCost()
	if share := float64(told.Whole) / float64(told.Answers); told.Answers != calls || share < 0.2 || share > 0.3 {
		t.Errorf("it tells %+v of %d answers", told, calls)
	}
}

func TestWithoutExpectationsNothingIsChecked(t *testing.T) {
	c := callerOf(t, &Definition{Wire: HTTP1}, Answer{Status: 200})
	if allocs := testing.AllocsPerRun(100, func() { _ = c.Check() }); allocs > 0 || c.CheckingCost() != nil {
		t.Errorf("%v allocations, %+v", allocs, c.CheckingCost())
	}
}

func BenchmarkCaller(b *testing.B) {
	for _, text := range []string{"", "status == 200", "json(.ok) == true"} {
		b.Run("expect="+text, func(b *testing.B) {
			d := &Definition{Wire: HTTP1, Requests: []Request{{}}}
			if text != "" {
				d.Expect = []string{text}
			}
			expected, err := d.Expectations()
			if err != nil {
				b.Fatal(err)
			}
			c := d.NewCaller(&answering{[]Answer{{Status: 200, Body: []byte(`{"ok":true}`)}}}, d.FixedSource(Share{Of: 1}))
			c.CheckAnswers(expected, 1)
			for b.Loop() {
				if err := c.Call(b.Context()); err != nil {
					b.Fatal(err)
				}
				if err := c.Check(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
