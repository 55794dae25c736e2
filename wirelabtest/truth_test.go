package wirelabtest_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"wirelab.dev/internal/wire/workload/ping/pingpb"
	"wirelab.dev/wirelabtest"
)

// plantedPause is long beside a call over any stack.
const plantedPause = 5 * time.Millisecond

// registerSlowOverTCP registers a service whose handler sleeps if the stack tcp carries it.
func registerSlowOverTCP(r grpc.ServiceRegistrar) {
	s := server{}
	if strings.Contains(fmt.Sprintf("%T", r), "tcp.") {
		s.pause = plantedPause
	}
	pingpb.RegisterPingServiceServer(r, s)
}

// judges reports whether make judges runs the test: then a verdict is demanded of the machine.
func judges() bool { return os.Getenv("JUDGES") != "" }

// A sleep never ends early, so the times are known from below, whatever the machine does.
func TestAPlantedPauseIsFound(t *testing.T) {
	measures(t)
	r := wirelabtest.Compare(&recorder{TB: t, ctx: t.Context()}, registerSlowOverTCP, call, wirelabtest.Stacks("grpc", "tcp"), wirelabtest.Callers(4), wirelabtest.Budget(10*time.Second))
	slow, _ := r.Stack("tcp")
	for name, found := range map[string]wirelabtest.Time{"mean": slow.Mean, "P50": slow.P50, "P99": slow.P99} {
		if found.Value != 0 && found.Value < plantedPause*99/100 { // a histogram's bucket is 1 % wide
			t.Errorf("the handler sleeps %v, but the %s is %v", plantedPause, name, found.Value)
		}
	}
	c, known := r.Between("tcp", "grpc", "mean")
	switch {
	case known && c.Verdict == wirelabtest.Slower && c.Ratio.Low > 1:
	case known && c.Verdict != wirelabtest.Undecided:
		t.Errorf("the planted pause is found as %+v", c)
	case judges():
		t.Errorf("the planted pause is not found: %+v", c)
	default:
		t.Logf("this machine was too busy for a verdict: %+v", c)
	}
}

// Of twenty comparisons of a stack with itself, one may find a difference by design: intervals are
// for 95 %. Five or more have a chance of 0.3 %.
func TestEqualStacksAreNotCalledDifferent(t *testing.T) {
	if !judges() {
		t.Skip("compares a stack with itself twenty times, in four minutes: JUDGES=1, as make judges sets it")
	}
	const most = 4
	different := 0
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := wirelabtest.Compare(t, register, call, wirelabtest.Stacks("grpc", "grpc:tls=off"), wirelabtest.Repeats(3), wirelabtest.Seed(1+seed))
			c, known := r.Between("grpc", "grpc:tls=off", "mean")
			t.Logf("%.3f (%.3f to %.3f): %s", c.Ratio.Value, c.Ratio.Low, c.Ratio.High, c.Verdict)
			if known && (c.Verdict == wirelabtest.Faster || c.Verdict == wirelabtest.Slower) {
				different++
			}
		})
	}
	if different > most {
		t.Errorf("%d of 20 comparisons of equal stacks found a difference: want at most %d", different, most)
	}
}
