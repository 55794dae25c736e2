package lab

import (
	"errors"
	"slices"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	probes "wirelab.dev/internal/machine/probe/catalog"
)

// BenchmarkProbes measures what it costs the 64-byte echo over TCP to be seen: pairs of
// trials with the probe and without, in random order, and the median of their ratios of the
// median time. That of life is told by its turns.
func BenchmarkProbes(b *testing.B) {
	for _, probe := range scenario.Probes {
		b.Run(string(probe), func(b *testing.B) {
			if _, err := probes.Coverage(string(probe)); errors.Is(err, host.ErrUnsupported) {
				b.Skip(err)
			}
			var ratios []float64
			for seed := uint64(1); b.Loop(); seed++ {
				ratios = append(ratios, priceOf(b, probe, seed))
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "watched/bare")
			b.ReportMetric(ratios[len(ratios)*3/4]-ratios[len(ratios)/4], "quartiles-apart")
		})
	}
}

func priceOf(b *testing.B, probe scenario.Probe, seed uint64) float64 {
	b.Helper()
	s := oneCell(b, "tcp")
	s.Seed = seed
	p := &s.Parts[0]
	p.Clients, p.Probes = []int{1}, []scenario.Probe{probe}
	p.Load = scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(500 * time.Millisecond)}
	l := newLab(b)
	var bare, watched float64
	for _, r := range runAll(b, l, s) {
		if r.Failure != "" {
			b.Fatal(r.Failure)
		}
		if r.Probe == record.ProbeLife && r.Life.BareNS != nil {
			return *r.Life.TracedNS / *r.Life.BareNS
		}
		service, err := r.Service.Decode()
		if err != nil {
			b.Fatal(err)
		}
		median := float64(service.Quantile(0.5))
		if r.Probe == "" {
			bare = median
		} else {
			watched = median
		}
	}
	return watched / bare
}

// BenchmarkTraces measures what execution traces cost the 64-byte echo of 50 callers: the mean time of
// calls in traced turns against those in the pauses of the same passes, and the CPU time per call of
// both ends in a pass against that in a trial without a probe, in pairs of trials. A pass is traced for
// two thirds of its time. Medians over the pairs.
func BenchmarkTraces(b *testing.B) {
	for _, stack := range []string{"tcp", "grpc", "fastgrpc", "creditrpc"} {
		b.Run(stack, func(b *testing.B) {
			var turns, cpu []float64
			for seed := uint64(1); b.Loop(); seed++ {
				s := oneCell(b, stack)
				s.Seed = seed
				p := &s.Parts[0]
				p.Clients, p.Probes = []int{50}, []scenario.Probe{record.ProbeLife}
				p.Load = scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(time.Second)}
				perCall := map[string]float64{}
				for _, r := range runAll(b, newLab(b), s) {
					if r.Failure != "" {
						b.Fatal(r.Failure)
					}
					for _, end := range []record.Process{r.Client, r.Server} {
						ns, _ := end.CPUNS()
						perCall[r.Probe] += float64(ns) / float64(r.Requests)
					}
					if r.Life != nil && r.Life.TracedNS != nil && r.Life.BareNS != nil {
						turns = append(turns, *r.Life.TracedNS / *r.Life.BareNS)
					}
				}
				cpu = append(cpu, perCall[record.ProbeLife]/perCall[""])
			}
			for unit, ratios := range map[string][]float64{"traced/bare": turns, "CPU-watched/bare": cpu} {
				if slices.Sort(ratios); len(ratios) > 0 {
					b.ReportMetric(ratios[len(ratios)/2], unit)
				}
			}
		})
	}
}
