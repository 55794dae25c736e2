package curves

import (
	"cmp"
	"math"
	"slices"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
)

// A Scaling holds a variant's throughput by calls in flight, and names what limits the throughput.
type Scaling struct {
	Part       string `json:"part"`
	Variant    string `json:"variant"`
	Connection string `json:"connection"`
	Workload   string `json:"workload"`
	record.Payload
	Points    []ScalingPoint  `json:"points"`
	Law       *ScalabilityLaw `json:"law,omitempty"` // the fitted universal scalability law; absent if it does not fit
	Reason    string          `json:"reason"`        // reason if law is absent
	Diagnosis Diagnosis       `json:"diagnosis"`
}

// A ScalingPoint is the throughput with a given number of calls in flight.
type ScalingPoint struct {
	Clients    int           `json:"clients"`
	Throughput matrix.Figure `json:"throughput_rps"`
	Ideal      *float64      `json:"ideal_rps" jsonschema:"nullable"`      // throughput with one call in flight, multiplied by the number of calls in flight; null if not measured
	Share      *float64      `json:"share_of_ideal" jsonschema:"nullable"` // throughput_rps divided by ideal_rps; null if ideal_rps is null
	Law        *float64      `json:"law_rps" jsonschema:"nullable"`        // throughput that the law predicts; null if no law fits
}

// A ScalabilityLaw holds the parameters of X(N) = λN / (1 + σ(N−1) + κN(N−1)).
type ScalabilityLaw struct {
	Ideal      matrix.Figure  `json:"ideal_rps"`  // λ: throughput with one call in flight
	Contention matrix.Figure  `json:"contention"` // σ: cost of waiting for a shared resource
	Coherency  matrix.Figure  `json:"coherency"`  // κ: cost of keeping shared data consistent
	Peak       *matrix.Figure `json:"peak"`       // calls in flight beyond which throughput falls; null if far beyond the measured range
	Misfit     float64        `json:"misfit"`     // mean relative error of the fit
}

// A Bottleneck names the cause that keeps throughput below its ideal.
type Bottleneck string

// The bottlenecks.
const (
	NoBottleneck      Bottleneck = "none"        // throughput is near its ideal, or no known cause limits it
	OnConnection      Bottleneck = "connection"  // a variant with more connections has more throughput
	MaybeConnection   Bottleneck = "connection?" // no variant with more connections was measured
	OnClientCPU       Bottleneck = "client-cpu"
	OnServerCPU       Bottleneck = "server-cpu"
	OnBothCPUs        Bottleneck = "cpus"    // the CPUs of client and server are mostly busy, but not fully
	BottleneckUnknown Bottleneck = "unknown" // throughput with one call in flight was not measured
)

// A Diagnosis names what limits a variant's throughput at the largest number of calls in flight.
// The figures are the evidence. A figure is null if it was not measured.
type Diagnosis struct {
	Text              string         `json:"text"` // the diagnosis as a sentence
	Bottleneck        Bottleneck     `json:"bottleneck" jsonschema:"enum=none,enum=connection,enum=connection?,enum=client-cpu,enum=server-cpu,enum=cpus,enum=unknown"`
	Clients           int            `json:"clients"` // number of calls in flight
	Share             *float64       `json:"share_of_ideal" jsonschema:"nullable"`
	Connections       matrix.Figure  `json:"connections"`              // number of opened connections
	InFlight          matrix.Figure  `json:"in_flight"`                // mean number of calls in flight
	Client            *matrix.Figure `json:"client_busy"`              // busy share of the client's CPUs
	Server            *matrix.Figure `json:"server_busy"`              // busy share of the server's CPUs
	PerWrite          *matrix.Figure `json:"requests_per_write"`       // requests per write system call
	PerSegment        *matrix.Figure `json:"requests_per_segment"`     // requests per segment with payload
	Idle              *matrix.Figure `json:"idle_share"`               // share of the time in which a connection had no bytes under way
	Blocked           *matrix.Figure `json:"blocked_share"`            // share of the time in which a window or a full buffer blocked a connection
	Retransmits       *matrix.Figure `json:"retransmits_per_thousand"` // retransmits per thousand requests
	Better            string         `json:"better"`                   // the best variant with more connections; empty if none was measured
	BetterConnections int            `json:"better_connections"`
	Gain              *matrix.Figure `json:"gain"`   // throughput of the variant in better, divided by this variant's
	Rivals            int            `json:"rivals"` // number of variants with more connections
}

const (
	// leastIdealShare is the least share of the ideal throughput that counts as unlimited.
	leastIdealShare = 0.7
	// minThroughputGain is the least gain in throughput, as a ratio, which proves that more
	// connections help. The whole interval of the gain must reach it.
	minThroughputGain = 1.1
)

// FindScalings analyses every closed loop with at least two numbers of clients whose calls do no
// work. It skips other curves, because one analysis takes several hundred fits.
func FindScalings(s *study.Study, points []*matrix.Point, seed uint64) []Scaling {
	var all []Scaling
	rates := matrix.NewFit(points, matrix.Throughput)
	for _, curve := range matrix.GroupByClients(points) {
		curve = slices.DeleteFunc(curve, func(p *matrix.Point) bool { return len(p.TrialsWith(record.Times)) == 0 })
		if len(curve) >= 2 && curve[0].Cell.Load.Model == "closed" && s.Workload(curve[0].Cell.Workload).Sweep {
			all = append(all, scalingOf(curve, points, rates, seed))
		}
	}
	return all
}

func scalingOf(own, points []*matrix.Point, rates *matrix.Fit, seed uint64) Scaling {
	cell := own[0].Cell
	s := Scaling{
		Part: cell.Part, Variant: cell.Variant, Connection: cell.Connection, Workload: cell.Workload, Payload: cell.Payload,
	}
	var curve stats.Curve
	var alone *float64
	for _, p := range own {
		x := ScalingPoint{Clients: p.Cell.Clients, Throughput: *cmp.Or(rates.Figure(p), &matrix.Figure{})}
		if x.Clients == 1 {
			alone = &x.Throughput.Value
		}
		if alone != nil && *alone > 0 {
			x.Ideal = new(*alone * float64(x.Clients))
			x.Share = new(x.Throughput.Value / *x.Ideal)
		}
		s.Points = append(s.Points, x)
		curve.X, curve.Y = append(curve.X, float64(x.Clients)), append(curve.Y, matrix.Values(p.TrialsWith(record.Times), matrix.Metrics[matrix.Throughput]))
	}
	law, err := stats.FitScalability(curve, stats.Resampling{Seed: seed, Confidence: matrix.Confidence})
	if err != nil {
		s.Reason = err.Error()
	} else {
		s.Law = &ScalabilityLaw{Ideal: matrix.FigureOf(law.Ideal), Contention: matrix.FigureOf(law.Contention), Coherency: matrix.FigureOf(law.Coherency), Misfit: law.Misfit}
		if law.Peak != nil {
			s.Law.Peak = new(matrix.FigureOf(*law.Peak))
		}
		for i := range s.Points {
			s.Points[i].Law = new(law.At(float64(s.Points[i].Clients)))
		}
	}
	s.Diagnosis = diagnose(own[len(own)-1], s.Points[len(s.Points)-1].Share, points, rates)
	return s
}

// diagnose names what limits a point. It returns OnConnection only if a measured variant with more
// connections has more throughput.
func diagnose(p *matrix.Point, share *float64, points []*matrix.Point, rates *matrix.Fit) Diagnosis {
	trials := p.TrialsWith(record.Times)
	d := Diagnosis{
		Clients: p.Cell.Clients, Share: share,
		Connections: matrix.FigureOver(trials, matrix.OpenedConnections),
		InFlight:    matrix.FigureOver(trials, func(t matrix.Trial) float64 { return t.InFlight }),
		Client:      matrix.KnownFigure(trials, func(t matrix.Trial) float64 { return matrix.Number(t.Client.Busy) }),
		Server:      matrix.KnownFigure(trials, func(t matrix.Trial) float64 { return matrix.Number(t.Server.Busy) }),
	}
	d.setTraffic(trials)
	d.findRivals(p, points, rates)
	busy := func(f *matrix.Figure, limit float64) bool { return f != nil && f.Value >= limit }
	few := d.Connections.Value < float64(p.Cell.Clients)
	switch {
	case d.Gain != nil && reachesLimit(*d.Gain, minThroughputGain):
		d.Bottleneck = OnConnection
	case busy(d.Server, matrix.BusyShare) && (d.Client == nil || d.Server.Value >= d.Client.Value):
		d.Bottleneck = OnServerCPU
	case busy(d.Client, matrix.BusyShare):
		d.Bottleneck = OnClientCPU
	case share == nil:
		d.Bottleneck = BottleneckUnknown
	case *share < leastIdealShare && busy(d.Client, matrix.IdleShare) && busy(d.Server, matrix.IdleShare):
		d.Bottleneck = OnBothCPUs
	case *share < leastIdealShare && few && d.Rivals == 0 && !busy(d.Client, matrix.IdleShare) && !busy(d.Server, matrix.IdleShare):
		d.Bottleneck = MaybeConnection
	default:
		d.Bottleneck = NoBottleneck
	}
	return d
}

// reachesLimit reports whether a figure's whole interval reaches the limit. A figure without an interval
// must reach the square of the limit.
func reachesLimit(f matrix.Figure, limit float64) bool {
	if f.Interval != nil {
		return f.Interval.Low >= limit
	}
	return f.Value >= limit*limit
}

// setTraffic sets the figures about requests, writes and segments on the connections.
func (d *Diagnosis) setTraffic(trials []matrix.Trial) {
	watched := matrix.Filter(trials, func(t matrix.Trial) bool { return t.Traffic != nil && t.Completed > 0 })
	per := func(count func(matrix.Trial) float64) *matrix.Figure {
		return matrix.KnownFigure(watched, func(t matrix.Trial) float64 {
			if n := count(t); n != 0 {
				return matrix.RequestsSeen(t) / n
			}
			return math.NaN()
		})
	}
	share := func(t matrix.Trial, ns *int64) float64 {
		return min(1, matrix.Number(ns)/float64(cmp.Or(t.Traffic.SpanNS, t.WindowNS))/max(1, matrix.OpenedConnections(t)))
	}
	d.PerWrite = per(func(t matrix.Trial) float64 { return matrix.Number(t.Traffic.SendCalls) })
	d.PerSegment = per(func(t matrix.Trial) float64 {
		acks := cmp.Or(t.Traffic.SentPureAcks, new(int64)) // UDP has no acknowledgements
		return max(0, matrix.Number(t.Traffic.SentPackets)-matrix.Number(acks))
	})
	d.Idle = matrix.KnownFigure(watched, func(t matrix.Trial) float64 { return 1 - share(t, t.Traffic.BusyNS) })
	d.Blocked = matrix.KnownFigure(watched, func(t matrix.Trial) float64 { return share(t, t.Traffic.BlockedNS) })
	d.Retransmits = matrix.KnownFigure(watched, matrix.Retransmits)
}

// findRivals looks for variants that differ only in having more connections.
func (d *Diagnosis) findRivals(p *matrix.Point, points []*matrix.Point, rates *matrix.Fit) {
	for _, rival := range points {
		if rival == p || rival.Conditions() != p.Conditions() || rival.WithoutConnections != p.WithoutConnections || len(rival.TrialsWith(record.Times)) == 0 {
			continue
		}
		connections := matrix.FigureOver(rival.TrialsWith(record.Times), matrix.OpenedConnections).Value
		if connections <= d.Connections.Value {
			continue
		}
		d.Rivals++
		gain, known := rates.Ratio(rival, p)
		if figure := gain.Figure(); known && (d.Gain == nil || figure.Value > d.Gain.Value) {
			d.Gain, d.Better, d.BetterConnections = &figure, rival.Cell.Variant, int(connections)
		}
	}
}
