package service

import (
	"math"
	"regexp"
	"testing"
)

var traceparent = regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-01$`)

// tracedOf are the places of the requests that carry a traceparent, and the identifiers.
func tracedOf(t *testing.T, share float64, client int, seed uint64, n int) (places []int, ids map[string]bool) {
	t.Helper()
	d := &Definition{Requests: []Request{{Path: "/", Header: []Field{{"A", "b"}}}}, Trace: &Trace{Share: share}}
	source := d.TracedSource(d.FixedSource(Share{Number: client, Of: 1, Seed: seed}), client, seed)
	caller := d.NewCaller(nil, source)
	ids = map[string]bool{}
	for i := range n {
		request, err := source.Next()
		if err != nil {
			t.Fatal(err)
		}
		id := caller.Trace()
		if len(request.Header) == 1 {
			if id != "" {
				t.Fatalf("request %d carries nothing, and is in trace %s", i, id)
			}
			continue
		}
		parts := traceparent.FindStringSubmatch(request.Header[1].Value)
		if len(request.Header) != 2 || request.Header[1].Name != TraceField || parts == nil || parts[1] != id {
			t.Fatalf("request %d has %v, and is in trace %s", i, request.Header, id)
		}
		places, ids[id] = append(places, i), true
	}
	if len(d.Requests[0].Header) != 1 {
		t.Fatalf("the definition's request was changed: %v", d.Requests[0].Header)
	}
	return places, ids
}

// A share is spread evenly: between two there are as many others as the share says, and one
// more or less. Together clients come to the share, too.
func TestTracesAreSpreadEvenly(t *testing.T) {
	const n, clients = 1000, 10
	for _, share := range []float64{0.01, 0.3, 1} {
		all := 0
		for client := range clients {
			places, _ := tracedOf(t, share, client, 7, n)
			all += len(places)
			for i := range places[1:] {
				if gap := float64(places[i+1] - places[i]); math.Abs(gap-1/share) >= 1 {
					t.Errorf("share %v, client %d: request %d is traced, and then %d", share, client, places[i], places[i+1])
				}
			}
		}
		if want := share * n * clients; math.Abs(float64(all)-want) > clients {
			t.Errorf("share %v: %d of %d are traced", share, all, n*clients)
		}
	}
}

// Few requests of many clients are not all traced at once, nor none of them.
func TestClientsBeginApart(t *testing.T) {
	all := 0
	for client := range 1000 {
		places, _ := tracedOf(t, 0.1, client, 1, 1)
		all += len(places)
	}
	if all < 80 || all > 120 {
		t.Errorf("of the first requests of 1000 clients %d are traced, want about 100", all)
	}
}

// The seed decides which requests, and never the identifiers.
func TestTracesOfTwoRuns(t *testing.T) {
	first, ids := tracedOf(t, 0.1, 3, 5, 500)
	second, others := tracedOf(t, 0.1, 3, 5, 500)
	if len(first) != len(second) || first[0] != second[0] || len(ids) != len(first) {
		t.Errorf("traced are %v and %v, with %d identifiers", first, second, len(ids))
	}
	for id := range ids {
		if others[id] {
			t.Errorf("two runs have the trace %s", id)
		}
	}
}

func TestNothingIsTracedUnasked(t *testing.T) {
	d := &Definition{Requests: []Request{{Path: "/"}}}
	source := d.FixedSource(Share{Of: 1})
	if got := d.TracedSource(source, 0, 1); got != source {
		t.Errorf("it is another source: %T", got)
	}
	if id := d.NewCaller(nil, source).Trace(); id != "" {
		t.Errorf("trace %q", id)
	}
}
