package fleet_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/fleet/hub"
)

// stacksOf counts the goroutines that are in this package's code, tests left out, by where they began.
func stacksOf() map[string]int {
	all := make([]byte, 16<<20)
	all = all[:runtime.Stack(all, true)]
	found := map[string]int{}
	for one := range strings.SplitSeq(string(all), "\n\n") {
		_, by, known := strings.Cut(one, "created by ")
		by, _, _ = strings.Cut(by, " in goroutine")
		if known && (strings.HasPrefix(by, "wirelab.dev/internal/run/fleet.") || strings.HasPrefix(by, "wirelab.dev/internal/run/worker.") ||
			strings.HasPrefix(by, "github.com/nats-io/nats.go") || strings.HasPrefix(by, "sync.(*WaitGroup)")) {
			found[by]++
		}
	}
	return found
}

// Controllers and agents that have ended have left no goroutine, however they did.
func TestNothingIsLeftRunning(t *testing.T) {
	hub := startHub(t, hub.HubOptions{})
	before := stacksOf()
	_, endServer := runAgent(t, hub, "s", "role=server")
	_, endFirst := runAgent(t, hub, "c0", "role=client")
	_, endSecond := runAgent(t, hub, "c1", "role=client")
	for _, client := range []string{"role=client*1", "role=client*2"} {
		on := control(t, hub, "role=server", client)
		s := scene(t, "tcp", 4, scenario.Load{Model: scenario.Closed, Requests: 50})
		for _, r := range measure(t, s, on) {
			if r.Failure != "" {
				t.Errorf("%s: %s", client, r.Failure)
			}
		}
		stage, err := on.Stage(within(t), 2) // a trial that is never begun
		if err != nil {
			t.Fatal(err)
		}
		_ = stage.Limits()
		on.Close()
		on.Close() // again does no harm
	}
	endFirst()
	endSecond()
	endServer()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		left := ""
		for by, n := range stacksOf() {
			if n > before[by] {
				left += fmt.Sprintf("%d by %s\n", n-before[by], by)
			}
		}
		if left == "" {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("goroutines are left:\n%s", left)
		}
	}
}
