package body

import (
	"context"
	"strings"
	"testing"

	"wirelab.dev/internal/wire/service"
)

// growing answers each call with one byte more.
type growing struct{ bytes int64 }

func (g *growing) Call(_ context.Context, _ *service.Request, answer *service.Answer) error {
	g.bytes++
	answer.Status, answer.Bytes = 200, g.bytes
	return nil
}

func (*growing) Close() error { return nil }

func TestAnswersOfAnotherSizeAreWrong(t *testing.T) {
	d := &service.Definition{Wire: service.HTTP1, Requests: []service.Request{{Method: "POST", Path: "/"}}}
	caller := sizedCaller{d.NewCaller(&growing{}, d.FixedSource(service.Share{Of: 1})), 1}
	for call, says := range []string{"", "an answer has 2 bytes, but the first answer had 1"} {
		if err := caller.Call(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := caller.Check()
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("call %d: %v, want %q", call, err, says)
		}
	}
}
