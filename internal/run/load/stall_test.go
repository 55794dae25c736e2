package load_test

import (
	"testing"
	"time"

	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/ping"
	"wirelab.dev/internal/wire/workload/workloadtest"
)

// TestInjectedStallIsFound puts a known truth into the handler, and has the load
// engine find it again: in every 100th request, and in no others.
func TestInjectedStallIsFound(t *testing.T) {
	const (
		stall    = 200 * time.Millisecond // far above what a busy machine does to a call
		requests = 1000
		clients  = 4
	)
	p := workload.Parameters{Settings: workloadtest.Settings(t, "stall=200ms,every=100")}
	conn := workloadtest.Connect(t, ping.Workload{}, p)
	plan := load.Plan{Requests: requests / clients}
	for client := range clients {
		plan.Callers = append(plan.Callers, ping.Workload{}.NewCaller(conn, workload.Job{Parameters: p, Client: client}))
	}
	result, err := load.Run(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	if err := result.Encode(); err != nil {
		t.Fatal(err)
	}
	service, err := result.Service.Decode()
	if err != nil {
		t.Fatal(err)
	}
	// A stall holds up one request of a hundred: of a thousand just as many
	// as lie above the P99, so that this is the first percentile to look at.
	p90, stalled := service.Quantile(0.90), service.Quantile(0.991)
	if stalled < stall {
		t.Errorf("a stall of %v in every 100th request is not seen: P99.1 is %v", stall, stalled)
	}
	if p90 > stall/2 {
		t.Errorf("P90 is %v, although 99 of 100 requests were not held up", p90)
	}
}
