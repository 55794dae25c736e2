package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/load"
)

// WarmUpMethod says, in records, how the end of the warm-up is found.
const WarmUpMethod = "MSER-5, and no drift behind its cut, over 5 ms intervals: of the throughput, in open loops of the mean service time"

// Bounds returns the load of the spec, without its callers.
func (s *Spec) Bounds() (load.Plan, error) {
	l := s.Client.Load
	open, err := s.arrivals()
	return load.Plan{
		Group:    (*load.Group)(s.Client.Group),
		Requests: l.RequestsPerClient, Extra: l.ExtraRequests, Duration: time.Duration(l.DurationNS),
		Open: open, InFlight: l.InFlightLimit, Drain: time.Duration(l.DrainNS),
		WarmUp:      load.WarmUp{AtLeast: time.Duration(l.WarmUpAtLeastNS), AtMost: time.Duration(l.WarmUpAtMostNS)},
		KeepSamples: s.Client.SamplesFile != "",
	}, err
}

// arrivals returns the schedule of the spec's load; nil for a closed loop, and for a
// search, which makes its own.
func (s *Spec) arrivals() (*load.Arrivals, error) {
	l := s.Client.Load
	poisson := l.Arrivals == "poisson"
	if (l.Model == scenario.Open || l.Model == scenario.Ramp) && l.Arrivals != "constant" && !poisson {
		return nil, fmt.Errorf("worker spec: arrivals %q: want constant or poisson", l.Arrivals)
	}
	switch l.Model {
	case scenario.Closed, scenario.Search:
		return nil, nil
	case scenario.Open:
		return &load.Arrivals{RatePerSecond: l.RatePerSecond, Poisson: poisson, Seed: s.Client.Seed}, nil
	case scenario.Ramp:
		return &load.Arrivals{RatePerSecond: l.RatePerSecond, RampTo: l.RampTo, Poisson: poisson, Seed: s.Client.Seed}, nil
	case scenario.Burst:
		return &load.Arrivals{Burst: l.Burst}, nil
	default:
		return nil, fmt.Errorf("worker spec: load model %q: want closed, open, burst, ramp or search", l.Model)
	}
}

// KeepSamples writes the samples and makes their folder; without a path it does nothing.
func KeepSamples(path string, samples []*latency.SampleLog) error {
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return latency.WriteParquet(path, samples)
}
