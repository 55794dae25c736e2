package check

import (
	"fmt"
	"strings"
	"testing"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
)

// TestOddAddressesAreNamed has an address that is slow, one that accepts no connection, and one
// without a request.
func TestOddAddressesAreNamed(t *testing.T) {
	calls := func(name string, took int64) record.NamedCalls {
		times := latency.NewRecorder()
		defer times.Close()
		for range 100 {
			times.Record(took)
		}
		d, err := latency.NewHistogram(times).Distribution()
		if err != nil {
			t.Fatal(err)
		}
		return record.NamedCalls{Name: name, Requests: 100, Service: d}
	}
	for _, test := range []struct {
		slowNS int64
		third  record.Address
		says   string
	}{
		{5e6, record.Address{}, "b:1 is 4 ms slower than the others: mean 5 ms against 1 ms"},
		{1e6, record.Address{}, "no connection is much slower"},
		{1e6, record.Address{Address: "c:1"}, "c:1 got no request: there are fewer connections than addresses"},
		{1e6, record.Address{Address: "c:1", Unreached: 2, Example: "refused"}, "c:1 got no request, because it accepts no connection: refused"},
		{5e6, record.Address{Address: "c:1", Unreached: 2, Example: "refused"}, "refused; b:1 is 4 ms slower"},
	} {
		r := &record.Record{}
		r.Requests, r.ByAddress = 200, []record.NamedCalls{calls("a:1", 1e6), calls("b:1", test.slowNS)}
		r.Addresses = &record.Addresses{Policy: "all", All: []record.Address{{Address: "a:1"}, {Address: "b:1"}}}
		if test.third.Address != "" {
			r.Addresses.All = append(r.Addresses.All, test.third)
		}
		if got := (trial{Record: r}).checkSingleConnections(); !strings.Contains(got.Detail, test.says) {
			t.Errorf("it says %q, want %q", got.Detail, test.says)
		}
	}
}

// TestLookUpsAreTold has look-ups that failed, and others that changed the addresses.
func TestLookUpsAreTold(t *testing.T) {
	r := &record.Record{}
	r.Connections = record.Connections{Mode: "per-worker", Opened: 6, Want: 6, During: 2}
	r.Addresses = &record.Addresses{Policy: "all", All: []record.Address{{Address: "a:1"}}, LookUps: &record.LookUps{Done: 9, Failed: 2, Example: "no answer"}}
	const want = "2 of 9 look-ups of the name failed, and requests then went to the same addresses as before: no answer; a:1 got no request"
	if got := (trial{Record: r}).checkSingleConnections(); got.Level != record.Warning || !strings.HasPrefix(got.Detail, want) {
		t.Errorf("it says %q, want %q", got.Detail, want)
	}
	if got := (trial{Record: r}).checkConnections(); got.Level != record.Invalid {
		t.Errorf("new connections without a reason: %s, %q", got.Level, got.Detail)
	}
	r.Addresses.LookUps = &record.LookUps{Done: 9, Changes: 1}
	if got := (trial{Record: r}).checkSingleConnections(); got.Level == record.Warning {
		t.Errorf("an address that came or left without a request: %q", got.Detail)
	}
	if got := (trial{Record: r}).checkConnections(); got.Level != record.OK || !strings.Contains(got.Detail, "because the addresses of the name changed") {
		t.Errorf("new connections to new addresses: %s, %q", got.Level, got.Detail)
	}
}

// TestIdleAddressesAreCounted has many addresses, and requests to one of them.
func TestIdleAddressesAreCounted(t *testing.T) {
	r := &record.Record{}
	r.ByAddress = []record.NamedCalls{{Name: "a0:1", Requests: 9}}
	r.Addresses = &record.Addresses{Policy: "all"}
	for i := range 50 {
		r.Addresses.All = append(r.Addresses.All, record.Address{Address: fmt.Sprintf("a%d:1", i)})
	}
	const want = "a1:1, a2:1, a3:1, a4:1, a5:1, 44 more got no request"
	if got := (trial{Record: r}).checkSingleConnections(); got.Level != record.Warning || !strings.HasPrefix(got.Detail, want) {
		t.Errorf("it says %q, want %q", got.Detail, want)
	}
}
