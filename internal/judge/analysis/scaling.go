package analysis

import (
	"cmp"
	"math"
	"slices"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
)

// Scaling is how the throughput of one variant follows the calls in flight, and
// what keeps it from following further.
type Scaling struct {
	Part       string `json:"part"`
	Variant    string `json:"variant"`
	Connection string `json:"connection"`
	Workload   string `json:"workload"`
	record.Payload
	Points    []ScalingPoint  `json:"points"`
	Law       *ScalabilityLaw `json:"law,omitempty"` // the fitted universal scalability law; absent where it is refused
	Reason    string          `json:"reason"`        // why there is no law
	Diagnosis Diagnosis       `json:"diagnosis"`
}

// ScalingPoint is one number of calls in flight.
type ScalingPoint struct {
	Clients    int      `json:"clients"`
	Throughput Figure   `json:"throughput_rps"`
	Ideal      *float64 `json:"ideal_rps" jsonschema:"nullable"`      // what one call alone does, times their number; null where that was not measured
	Share      *float64 `json:"share_of_ideal" jsonschema:"nullable"` // null with ideal_rps
	Law        *float64 `json:"law_rps" jsonschema:"nullable"`        // what the law gives; null without one
}

// ScalabilityLaw is X(N) = λN / (1 + σ(N−1) + κN(N−1)).
type ScalabilityLaw struct {
	Ideal      Figure  `json:"ideal_rps"`  // λ
	Contention Figure  `json:"contention"` // σ
	Coherency  Figure  `json:"coherency"`  // κ
	Peak       *Figure `json:"peak"`       // calls in flight beyond which throughput falls; null where that is far beyond what was measured
	Misfit     float64 `json:"misfit"`     // mean error, as a share
}

// Bottleneck names what keeps a curve from following its ideal line.
type Bottleneck string

// The bottlenecks.
const (
	NoBottleneck     Bottleneck = "none"       // it follows, or nothing that was looked at holds it
	OnConnection     Bottleneck = "connection" // more connections were measured to carry more
	MaybeConnection  Bottleneck = "connection?"
	OnClientCPU      Bottleneck = "client-cpu"
	OnServerCPU      Bottleneck = "server-cpu"
	OnBothCPUs       Bottleneck = "cpus"    // neither is quite busy, and both are mostly
	BottleneckUnsure Bottleneck = "unknown" // too little was measured
)

// Diagnosis is what holds a variant at the most calls in flight, with the
// figures that say so, null where they were not measured.
type Diagnosis struct {
	Text              string     `json:"text"` // in a sentence, which package advice writes
	Bottleneck        Bottleneck `json:"bottleneck" jsonschema:"enum=none,enum=connection,enum=connection?,enum=client-cpu,enum=server-cpu,enum=cpus,enum=unknown"`
	Clients           int        `json:"clients"` // calls in flight
	Share             *float64   `json:"share_of_ideal" jsonschema:"nullable"`
	Connections       Figure     `json:"connections"` // really opened
	InFlight          Figure     `json:"in_flight"`   // mean
	Client            *Figure    `json:"client_busy"` // share of its CPUs
	Server            *Figure    `json:"server_busy"`
	PerWrite          *Figure    `json:"requests_per_write"`       // a system call
	PerSegment        *Figure    `json:"requests_per_segment"`     // with payload
	Idle              *Figure    `json:"idle_share"`               // of the time, in which a connection had nothing on the way
	Blocked           *Figure    `json:"blocked_share"`            // of the time, in which a window or a full buffer held a connection back
	Retransmits       *Figure    `json:"retransmits_per_thousand"` // requests
	Better            string     `json:"better"`                   // the variant with more connections that carries most; empty where none was measured
	BetterConnections int        `json:"better_connections"`
	Gain              *Figure    `json:"gain"`   // its throughput over this one's
	Rivals            int        `json:"rivals"` // variants with more connections
}

const (
	// followsIdeal is the share of the ideal from which a curve follows its line.
	followsIdeal = 0.7
	// minGain is how many times as much more connections must carry, at the lower end
	// of the interval, for the connection to be what holds.
	minGain = 1.1
)

// scalings analyses every curve of a closed loop over at least two concurrencies
// whose calls ask for nothing. Other curves are left out, since a fit is made some
// hundred times for its interval and takes a while.
func scalings(s *study, points []*point, seed uint64) []Scaling {
	var all []Scaling
	for _, curve := range byClients(points) {
		curve = slices.DeleteFunc(curve, func(p *point) bool { return len(p.valid()) == 0 })
		if len(curve) >= 2 && curve[0].cell.Load.Model == "closed" && s.Workload(curve[0].cell.Workload).Sweep {
			all = append(all, scalingOf(curve, points, seed))
		}
	}
	return all
}

func scalingOf(own, points []*point, seed uint64) Scaling {
	cell := own[0].cell
	s := Scaling{
		Part: cell.Part, Variant: cell.Variant, Connection: cell.Connection, Workload: cell.Workload, Payload: cell.Payload,
	}
	var curve stats.Curve
	var alone *float64
	for _, p := range own {
		x := ScalingPoint{Clients: p.cell.Clients, Throughput: over(p.valid(), metrics[Throughput])}
		if x.Clients == 1 {
			alone = &x.Throughput.Value
		}
		if alone != nil && *alone > 0 {
			x.Ideal = new(*alone * float64(x.Clients))
			x.Share = new(x.Throughput.Value / *x.Ideal)
		}
		s.Points = append(s.Points, x)
		curve.X, curve.Y = append(curve.X, float64(x.Clients)), append(curve.Y, values(p.valid(), metrics[Throughput]))
	}
	law, err := stats.FitScalability(curve, stats.Resampling{Seed: seed, Confidence: confidence})
	if err != nil {
		s.Reason = err.Error()
	} else {
		s.Law = lawOf(law)
		for i := range s.Points {
			s.Points[i].Law = new(law.At(float64(s.Points[i].Clients)))
		}
	}
	s.Diagnosis = diagnose(own[len(own)-1], s.Points[len(s.Points)-1].Share, points)
	return s
}

func lawOf(law stats.Scalability) *ScalabilityLaw {
	l := &ScalabilityLaw{Ideal: estimated(law.Ideal), Contention: estimated(law.Contention), Coherency: estimated(law.Coherency), Misfit: law.Misfit}
	if law.Peak != nil {
		l.Peak = new(estimated(*law.Peak))
	}
	return l
}

// diagnose says what limits the point, which has the most calls in flight of its
// curve. It names the connection for certain only where a variant with more
// connections was measured too and carries more.
func diagnose(p *point, share *float64, points []*point) Diagnosis {
	trials := p.valid()
	d := Diagnosis{
		Clients: p.cell.Clients, Share: share,
		Connections: over(trials, opened),
		InFlight:    over(trials, func(t trial) float64 { return t.InFlight }),
		Client:      known(trials, func(t trial) float64 { return number(t.Client.Busy) }),
		Server:      known(trials, func(t trial) float64 { return number(t.Server.Busy) }),
	}
	d.wire(trials)
	d.rivals(p, points)
	busy := func(f *Figure, limit float64) bool { return f != nil && f.Value >= limit }
	few := d.Connections.Value < float64(p.cell.Clients)
	switch {
	case d.Gain != nil && atLeast(*d.Gain, minGain):
		d.Bottleneck = OnConnection
	case busy(d.Server, boundBusy) && (d.Client == nil || d.Server.Value >= d.Client.Value):
		d.Bottleneck = OnServerCPU
	case busy(d.Client, boundBusy):
		d.Bottleneck = OnClientCPU
	case share == nil:
		d.Bottleneck = BottleneckUnsure
	case *share < followsIdeal && busy(d.Client, boundIdle) && busy(d.Server, boundIdle):
		d.Bottleneck = OnBothCPUs
	case *share < followsIdeal && few && d.Rivals == 0 && !busy(d.Client, boundIdle) && !busy(d.Server, boundIdle):
		d.Bottleneck = MaybeConnection
	default:
		d.Bottleneck = NoBottleneck
	}
	return d
}

// atLeast reports whether a figure reaches the limit for certain: with the lower end
// of its interval, or without one by a wide margin.
func atLeast(f Figure, limit float64) bool {
	if f.Interval != nil {
		return f.Interval.Low >= limit
	}
	return f.Value >= limit*limit
}

// wire fills in how requests went onto the connections.
func (d *Diagnosis) wire(trials []trial) {
	watched := filter(trials, func(t trial) bool { return t.Traffic != nil && t.Completed > 0 })
	per := func(count func(trial) float64) *Figure {
		return known(watched, func(t trial) float64 {
			if n := count(t); n != 0 {
				return requestsSeen(t) / n
			}
			return math.NaN()
		})
	}
	share := func(t trial, ns *int64) float64 {
		return min(1, number(ns)/float64(cmp.Or(t.Traffic.SpanNS, t.WindowNS))/max(1, opened(t)))
	}
	d.PerWrite = per(func(t trial) float64 { return number(t.Traffic.SendCalls) })
	d.PerSegment = per(func(t trial) float64 {
		acks := cmp.Or(t.Traffic.SentPureAcks, new(int64)) // datagrams have none
		return max(0, number(t.Traffic.SentPackets)-number(acks))
	})
	d.Idle = known(watched, func(t trial) float64 { return 1 - share(t, t.Traffic.BusyNS) })
	d.Blocked = known(watched, func(t trial) float64 { return share(t, t.Traffic.BlockedNS) })
	d.Retransmits = known(watched, retransmits)
}

// rivals looks for variants that differ only in having more connections.
func (d *Diagnosis) rivals(p *point, points []*point) {
	for _, rival := range points {
		if rival == p || rival.conditions() != p.conditions() || rival.withoutConnections != p.withoutConnections || len(rival.valid()) == 0 {
			continue
		}
		connections := over(rival.valid(), opened).Value
		if connections <= d.Connections.Value {
			continue
		}
		d.Rivals++
		if gain := ratio(rival, p, metrics[Throughput]); d.Gain == nil || gain.Value > d.Gain.Value {
			d.Gain, d.Better, d.BetterConnections = &gain, rival.cell.Variant, int(connections)
		}
	}
}
