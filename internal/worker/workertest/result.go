package workertest

import (
	"errors"
	"math"
	"strings"
	"testing"

	"wirelab.dev/internal/worker"
)

// wantError expects an error event whose message has the word.
func wantError(t *testing.T, err error, word string) {
	t.Helper()
	var fault *worker.Error
	switch {
	case err == nil:
		t.Fatal("no error event")
	case !errors.As(err, &fault):
		t.Fatalf("not an error of the worker: %v", err)
	case !strings.Contains(fault.What, word):
		t.Errorf("the error does not name %q: %v", word, fault)
	}
}

// checkResult expects a consistent measurement of that many requests; 0 means any number
// above zero.
func checkResult(t *testing.T, r *worker.ClientResult, requests int64) {
	t.Helper()
	if requests > 0 && r.Requests != requests || r.Requests <= 0 {
		t.Errorf("%d requests, want %d", r.Requests, requests)
	}
	for _, f := range r.Failures {
		t.Errorf("%d calls failed: %s: %s", f.Count, f.Code, f.Example)
	}
	if r.Service.Count != r.Requests {
		t.Errorf("%d service times of %d requests", r.Service.Count, r.Requests)
	}
	service, err := r.Service.Decode()
	if err != nil {
		t.Fatalf("the service times cannot be read: %v", err)
	}
	if r.EndNS <= r.BeginNS {
		t.Fatalf("the window ends (%d) before it begins (%d)", r.EndNS, r.BeginNS)
	}
	if r.Connections.Total.Opened < 1 {
		t.Error("there were answers, but no connection was opened")
	}
	if r.Usage == nil || r.Usage.CPU() < 0 {
		t.Error("the client does not say what it cost")
	}
	// Little's law, loosely: the windows here are short. At either edge a call of
	// each client may lie partly outside, and be as long as the longest.
	window := float64(r.EndNS - r.BeginNS)
	product := float64(r.Completed) / window * float64(r.Service.Sum) / float64(r.Service.Count)
	edges := 2 * clients * float64(service.Max()) / window
	if math.Abs(product-r.InFlight) > 0.25*r.InFlight+edges {
		t.Errorf("%.3f calls in flight, and throughput × service time gives %.3f", r.InFlight, product)
	}
}
