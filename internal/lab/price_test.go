package lab

import (
	"slices"
	"testing"
	"time"

	"wirelab.dev/internal/record"
	"wirelab.dev/internal/scenario"
)

// BenchmarkProbes measures what it costs the 64-byte echo over TCP to be seen: rounds of
// trials with each probe and without, in random order, and the medians of their ratios of the
// median time. That of life is told by its turns.
func BenchmarkProbes(b *testing.B) {
	s := oneCell(b, "tcp")
	p := &s.Parts[0]
	p.Clients, p.Probes = []int{1}, scenario.Probes
	p.Load = scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(500 * time.Millisecond)}
	l := newLab(b)
	l.Patience = Patience{}
	ratios := map[string][]float64{}
	for seed := uint64(1); b.Loop(); seed++ {
		s.Seed = seed
		medians := map[string]float64{}
		for _, r := range runAll(b, l, s) {
			if r.Failure != "" {
				b.Fatal(r.Failure)
			}
			service, err := r.Service.Decode()
			if err != nil {
				b.Fatal(err)
			}
			medians[r.Probe] = float64(service.Quantile(0.5))
			if r.Life != nil && r.Life.BareNS != nil {
				ratios[r.Probe] = append(ratios[r.Probe], *r.Life.TracedNS / *r.Life.BareNS)
			}
		}
		for probe, median := range medians {
			if probe != "" && probe != record.ProbeLife {
				ratios[probe] = append(ratios[probe], median/medians[""])
			}
		}
	}
	for probe, all := range ratios {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], probe+"/bare")
	}
}
