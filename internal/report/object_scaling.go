package report

import (
	"wirelab.dev/internal/advice"
	"wirelab.dev/internal/analysis"
)

// ScalingObject is how the throughput of one variant follows the calls in
// flight, and what keeps it from following further.
type ScalingObject struct {
	Part         string               `json:"part"`
	Variant      string               `json:"variant"`
	Connection   string               `json:"connection"`
	Workload     string               `json:"workload"`
	RequestBytes int                  `json:"request_bytes"`
	Points       []ScalingPointObject `json:"points"`
	Law          *LawObject           `json:"law,omitempty"` // the fitted universal scalability law; absent where it is refused
	Reason       string               `json:"reason"`        // why there is no law
	Diagnosis    DiagnosisObject      `json:"diagnosis"`
}

// ScalingPointObject is one number of calls in flight.
type ScalingPointObject struct {
	Clients       int              `json:"clients"`
	ThroughputRPS Number           `json:"throughput_rps"`
	IdealRPS      Number           `json:"ideal_rps"`      // what one call alone does, times their number; null where that was not measured
	Share         Number           `json:"share_of_ideal"` // null with ideal_rps
	LawRPS        Number           `json:"law_rps"`        // what the law gives; null without one
	Intervals     IntervalsByField `json:"intervals"`
}

// LawObject is X(N) = λN / (1 + σ(N−1) + κN(N−1)).
type LawObject struct {
	Ideal      Number           `json:"ideal_rps"`  // λ
	Contention Number           `json:"contention"` // σ
	Coherency  Number           `json:"coherency"`  // κ
	Peak       Number           `json:"peak"`       // calls in flight beyond which throughput falls; null where that is far beyond what was measured
	Misfit     Number           `json:"misfit"`     // mean error, as a share
	Intervals  IntervalsByField `json:"intervals"`
}

// DiagnosisObject is what holds a variant at the most calls in flight, with the
// figures that say so, null where they were not measured.
type DiagnosisObject struct {
	Text              string              `json:"text"` // in a sentence
	Bottleneck        analysis.Bottleneck `json:"bottleneck" jsonschema:"enum=none,enum=connection,enum=connection?,enum=client-cpu,enum=server-cpu,enum=cpus,enum=unknown"`
	Clients           int                 `json:"clients"` // calls in flight
	Share             Number              `json:"share_of_ideal"`
	Connections       Number              `json:"connections"` // really opened
	InFlight          Number              `json:"in_flight"`   // mean
	Client            Number              `json:"client_busy"` // share of its CPUs
	Server            Number              `json:"server_busy"`
	PerWrite          Number              `json:"requests_per_write"`       // a system call
	PerSegment        Number              `json:"requests_per_segment"`     // with payload
	Idle              Number              `json:"idle_share"`               // of the time, in which a connection had nothing on the way
	Blocked           Number              `json:"blocked_share"`            // of the time, in which a window or a full buffer held a connection back
	Retransmits       Number              `json:"retransmits_per_thousand"` // requests
	Better            string              `json:"better"`                   // the variant with more connections that carries most; empty where none was measured
	BetterConnections int                 `json:"better_connections"`
	Gain              Number              `json:"gain"`   // its throughput over this one's
	Rivals            int                 `json:"rivals"` // variants with more connections
	Intervals         IntervalsByField    `json:"intervals"`
}

func scalingObject(s *analysis.Scaling) ScalingObject {
	object := ScalingObject{
		Part: s.Part, Variant: s.Variant, Connection: s.Connection, Workload: s.Workload, RequestBytes: s.RequestBytes,
		Points: each(s.Points, scalingPointObject),
		Reason: s.Reason, Diagnosis: diagnosisObject(s),
	}
	if l := s.Law; l != nil {
		intervals := IntervalsByField{}
		object.Law = &LawObject{
			Ideal:      intervals.take("ideal_rps", l.Ideal),
			Contention: intervals.take("contention", l.Contention),
			Coherency:  intervals.take("coherency", l.Coherency),
			Peak:       intervals.maybe("peak", l.Peak),
			Misfit:     Number(l.Misfit),
			Intervals:  intervals,
		}
	}
	return object
}

func scalingPointObject(p *analysis.ScalingPoint) ScalingPointObject {
	intervals := IntervalsByField{}
	object := ScalingPointObject{
		Clients: p.Clients, ThroughputRPS: intervals.take("throughput_rps", p.Throughput),
		IdealRPS: Number(none.Value), Share: Number(none.Value), LawRPS: Number(none.Value), Intervals: intervals,
	}
	if p.Ideal > 0 {
		object.IdealRPS, object.Share = Number(p.Ideal), Number(p.Share)
	}
	if p.Law > 0 {
		object.LawRPS = Number(p.Law)
	}
	return object
}

func diagnosisObject(s *analysis.Scaling) DiagnosisObject {
	d, intervals := &s.Diagnosis, IntervalsByField{}
	object := DiagnosisObject{
		Text: advice.Bottleneck(*s), Bottleneck: d.Bottleneck, Clients: d.Clients, Share: Number(none.Value),
		Connections: intervals.take("connections", d.Connections),
		InFlight:    intervals.take("in_flight", d.InFlight),
		Client:      intervals.maybe("client_busy", d.Client),
		Server:      intervals.maybe("server_busy", d.Server),
		PerWrite:    intervals.maybe("requests_per_write", d.PerWrite),
		PerSegment:  intervals.maybe("requests_per_segment", d.PerSegment),
		Idle:        intervals.maybe("idle_share", d.Idle),
		Blocked:     intervals.maybe("blocked_share", d.Blocked),
		Retransmits: intervals.maybe("retransmits_per_thousand", d.Retransmits),
		Better:      d.Better, BetterConnections: d.BetterConnections,
		Gain: intervals.maybe("gain", d.Gain), Rivals: d.Rivals, Intervals: intervals,
	}
	if d.Share > 0 {
		object.Share = Number(d.Share)
	}
	return object
}

// maybe takes a figure that is null where it is nil.
func (i IntervalsByField) maybe(path string, f *analysis.Figure) Number {
	if f == nil {
		f = &none
	}
	return i.take(path, *f)
}
