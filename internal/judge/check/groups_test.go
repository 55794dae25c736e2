package check

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
)

func TestCallsOfTwoKindsAreSeen(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	// drawn returns the durations of calls: a median times a wide log-normal. A share of the
	// calls takes longer by a fixed time.
	drawn := func(share float64, longer time.Duration) []time.Duration {
		all := make([]time.Duration, 10_000)
		for i := range all {
			all[i] = time.Duration(1e5 * math.Exp(0.3*random.NormFloat64()))
			if random.Float64() < share {
				all[i] += longer
			}
		}
		return all
	}
	for _, c := range []struct {
		name   string
		share  float64
		longer time.Duration
		level  record.Level
		says   string
	}{
		{"one kind", 0, 0, record.OK, "form one group"},
		{"an unlike server", 0.5, 2 * time.Millisecond, record.Warning, "% of the calls took 2."},
		{"a cache for most", 0.15, 2 * time.Millisecond, record.Warning, "there are two groups of calls"},
		{"a tail", 0.05, 20 * time.Millisecond, record.OK, ""},
		{"servers that differ little", 0.5, 100 * time.Microsecond, record.OK, ""},
	} {
		r := sound(t)
		r.Service = distribution(t, drawn(c.share, c.longer))
		wantCheckSays(t, c.name, r, "groups", c.level, c.says)
	}
}
