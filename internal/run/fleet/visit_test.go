package fleet

import (
	"bytes"
	"strings"
	"testing"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/reach"
)

// An agent's forged result of a first call changes neither the requests nor the place of the calls.
func TestForgedFirstCalls(t *testing.T) {
	for name, c := range map[string]struct {
		told   worker.VisitResult
		change func(*reach.FirstCall)
		want   string // empty: believed
	}{
		"another server":    {told: worker.VisitResult{Address: "10.0.0.9:80"}, want: "no address of the service"},
		"no address":        {want: "no address of the service"},
		"another address":   {told: worker.VisitResult{Address: "10.0.0.2:80"}},
		"events":            {told: worker.VisitResult{Address: "10.0.0.1:80", Events: true}},
		"events of a whole": {told: worker.VisitResult{Address: "10.0.0.1:80", Events: true}, change: func(f *reach.FirstCall) { f.Whole = true }, want: "not asked for"},
		"events of gRPC":    {told: worker.VisitResult{Address: "10.0.0.1:80", Events: true}, change: func(f *reach.FirstCall) { f.Definition.Wire = service.GRPC }, want: "not asked for"},
		"events that are held": {
			told:   worker.VisitResult{Address: "10.0.0.1:80", Events: true},
			change: func(f *reach.FirstCall) { f.Definition.Holding = &service.Holding{InFlight: 3} }, want: "not asked for",
		},
		"a failure with escapes": {told: worker.VisitResult{Failure: "\x1b[2J\nwirelab: all is well"}, want: "the first call from c1:  [2J wirelab: all is well"},
		"a long failure":         {told: worker.VisitResult{Failure: strings.Repeat("x", 1<<20)}, want: "the first call from c1: xxx"},
	} {
		d := &service.Definition{
			Wire: service.HTTP1, Network: "tcp", Address: "10.0.0.1:80", Requests: []service.Request{{Method: "GET", Path: "/"}},
			Addresses: &service.Addresses{Policy: service.AllAddresses, All: []string{"10.0.0.1:80", "10.0.0.2:80"}},
		}
		call := &reach.FirstCall{Definition: d, Notes: &bytes.Buffer{}}
		if c.change != nil {
			c.change(call)
		}
		before := *d
		err := applyVisit("c1", call, &c.told)
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 2*maxVisitText):
			t.Errorf("%s: %.300v, want %q", name, err, c.want)
		case c.want != "" && (d.Address != before.Address || d.Holding != before.Holding):
			t.Errorf("%s: a refused result changed the definition", name)
		}
	}
	notes := &bytes.Buffer{}
	many := worker.VisitResult{Notes: make([]string, 1<<16), Failure: "late", Class: string(failure.Deadline)}
	many.Notes[0] = "first call: \x1b[2J" + strings.Repeat("x", 1<<20)
	err := applyVisit("c1", &reach.FirstCall{Definition: &service.Definition{}, Notes: notes}, &many)
	if failure.Of(err) != failure.Deadline {
		t.Errorf("the class of %v is %s", err, failure.Of(err))
	}
	if text := notes.String(); len(text) > 2*maxVisitText+maxVisitNotes*100 || strings.Contains(text, "\x1b") || strings.Count(text, "\n") != maxVisitNotes {
		t.Errorf("%d bytes in %d lines were printed", len(text), strings.Count(text, "\n"))
	}
}

// Only the worker that was ordered to make a first call may tell of one.
func TestResultsOfFirstCallsFitTheirOrders(t *testing.T) {
	for _, c := range []struct {
		role   worker.Role
		result worker.Result
		fits   bool
	}{
		{worker.VisitRole, worker.Result{Visit: &worker.VisitResult{}}, true},
		{worker.VisitRole, worker.Result{}, false},
		{worker.VisitRole, worker.Result{Client: &worker.ClientResult{}, Visit: &worker.VisitResult{}}, false},
		{worker.ServerRole, worker.Result{Visit: &worker.VisitResult{}}, false},
		{worker.ClientRole, worker.Result{Client: &worker.ClientResult{}, Visit: &worker.VisitResult{}}, false},
	} {
		r := &remoteWorker{on: &leasedAgent{}, spec: worker.Spec{Role: c.role, Client: &worker.ClientSpec{}}}
		if err := r.checkFits(&c.result, 0); (err == nil) != c.fits {
			t.Errorf("%s, %+v: %v", c.role, c.result, err)
		}
	}
}
