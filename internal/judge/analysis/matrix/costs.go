package matrix

import (
	"cmp"
	"math"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/check"
)

// An End holds the costs of one end in the window, except its CPU time per request. Figures are
// null if not measured. Only peak_bytes has an interval.
type End struct {
	Share      *Figure `json:"cpu_share" csv:"cpu_share" label:"Share of CPU" interval:"-"`  // the end's share of the CPU time of both ends
	Busy       *Figure `json:"busy" csv:"busy_share" label:"Busy" unit:"share" interval:"-"` // busy share of the end's CPUs
	Collector  *Figure `json:"gc_share" csv:"gc_share" label:"Collector" interval:"-"`       // share of the end's CPU time that the garbage collector used
	Cores      *Figure `json:"cores" interval:"-"`                                           // mean number of CPUs in use
	RSS        *Figure `json:"rss_bytes" csv:"rss_bytes" label:"Memory" interval:"-"`        // memory at the window's end
	Peak       *Figure `json:"peak_bytes" csv:"peak_bytes" label:"At its peak"`              // largest memory in the window
	Own        *Figure `json:"own_bytes" csv:"own_bytes" label:"Its own" interval:"-"`       // largest memory in the window, without pages of files, which processes share
	Heap       *Figure `json:"heap_bytes" csv:"heap_bytes" label:"Heap" interval:"-"`
	Threads    *Figure `json:"threads" csv:"threads" label:"Threads" interval:"-"`          // largest number of threads at one time
	Sockets    *Figure `json:"sockets" csv:"sockets" label:"Sockets" interval:"-"`          // largest number of sockets at one time
	Goroutines *Figure `json:"goroutines" csv:"goroutines" label:"Goroutines" interval:"-"` // largest number of goroutines at one time
}

// endOf returns the costs of one end. other returns the opposite end.
func endOf(from usable, of, other func(Trial) record.Process) End {
	count := func(field func(record.Process) *int64) *Figure {
		return KnownFigure(from.bytes, func(t Trial) float64 { return Number(field(of(t))) })
	}
	return End{
		Share:      KnownFigure(from.cpu, func(t Trial) float64 { return cpuTimeNS(of(t)) / (cpuTimeNS(of(t)) + cpuTimeNS(other(t))) }),
		Busy:       KnownFigure(from.times, func(t Trial) float64 { return Number(of(t).Busy) }),
		Collector:  KnownFigure(from.cpu, func(t Trial) float64 { return collectorShare(of(t)) }),
		Cores:      KnownFigure(from.times, func(t Trial) float64 { return coresInUse(t, of(t)) }),
		RSS:        count(func(p record.Process) *int64 { return p.RSSBytes }),
		Peak:       count(func(p record.Process) *int64 { return p.PeakBytes }),
		Heap:       count(func(p record.Process) *int64 { return p.HeapBytes }),
		Own:        count(func(p record.Process) *int64 { return p.OwnBytes }),
		Threads:    count(func(p record.Process) *int64 { return p.Threads }),
		Sockets:    count(func(p record.Process) *int64 { return p.Sockets }),
		Goroutines: count(func(p record.Process) *int64 { return p.Goroutines }),
	}
}

// A FleetClient holds the results of one client of a fleet. Each figure is the median over the
// trials behind the cell's figures.
type FleetClient struct {
	Agent      string       `json:"agent"`                                                             // the agent's name
	Clients    int          `json:"clients"`                                                           // number of the cell's clients on this agent
	Throughput float64      `json:"throughput_rps"`                                                    // successful answers per second
	P50        *float64     `json:"p50_us" jsonschema:"nullable"`                                      // P50 of the response time; null if too few requests lie beyond it
	P99        *float64     `json:"p99_us" jsonschema:"nullable"`                                      // P99 of the response time; null as for P50
	CPU        *float64     `json:"cpu_us" jsonschema:"nullable"`                                      // CPU time of this client per request; null if it was not measured
	Busy       *float64     `json:"busy_share" jsonschema:"nullable"`                                  // busy share of this client's CPUs; null if not measured
	Level      record.Level `json:"level" jsonschema:"enum=ok,enum=warning,enum=invalid,enum=unknown"` // the worst level of any check in any trial
	Detail     string       `json:"detail"`                                                            // the check and its reason; empty for level ok
}

// fleetClients returns the clients of a cell's trials by agent, or nil without a fleet.
func fleetClients(trials []Trial) []FleetClient {
	var all []check.ClientChecks
	for _, t := range trials {
		all = append(all, check.JudgeClients(t.Record, t.limits)...)
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b check.ClientChecks) int { return cmp.Compare(a.Name, b.Name) })
	return lists.Map(lists.GroupBy(all, func(c check.ClientChecks) string { return c.Name }), summarizeClient)
}

func summarizeClient(of []check.ClientChecks) FleetClient {
	median := func(figure func(check.ClientChecks) float64) *float64 {
		known := slices.DeleteFunc(lists.Map(of, figure), math.IsNaN)
		if len(known) == 0 {
			return nil
		}
		return new(stats.Median(known))
	}
	quantile := func(q float64, ns func(check.ClientChecks) int64) *float64 {
		return median(func(c check.ClientChecks) float64 {
			if c.Requests < stats.LeastCountForQuantile(q) {
				return math.NaN()
			}
			return float64(ns(c)) / 1e3
		})
	}
	s := FleetClient{
		Agent: of[0].Name, Clients: of[0].FleetClient.Clients, Level: record.Unknown,
		Throughput: *median(func(c check.ClientChecks) float64 {
			return float64(max(0, c.Completed-c.Failed)) / float64(max(1, c.WindowNS)) * 1e9
		}),
		P50: quantile(0.5, func(c check.ClientChecks) int64 { return c.P50NS }),
		P99: quantile(0.99, func(c check.ClientChecks) int64 { return c.P99NS }),
		CPU: median(func(c check.ClientChecks) float64 {
			if c.Completed == 0 {
				return math.NaN()
			}
			return cpuTimeNS(c.Process) / float64(c.Completed) / 1e3
		}),
		Busy: median(func(c check.ClientChecks) float64 { return Number(c.Process.Busy) }),
	}
	for _, c := range of {
		for _, made := range c.Checks {
			if made.Level.Severity() > s.Level.Severity() {
				s.Level, s.Detail = made.Level, ""
				if made.Level != record.OK {
					s.Detail = made.Name + ": " + made.Detail
				}
			}
		}
	}
	return s
}

// Traffic counts bytes and packets on the connections in the window, below TLS.
type Traffic struct {
	Transport   string    `json:"transport"`         // tcp or udp
	Offload     string    `json:"offload"`           // gso or none; empty if unknown
	Sent        Direction `json:"sent" csv:"sent_*"` // sent by the client
	Received    Direction `json:"received" csv:"received_*"`
	Retransmits *Figure   `json:"retransmits_per_thousand" csv:"retransmits_per_thousand" interval:"-"` // retransmits per thousand requests
	RTT         *Figure   `json:"rtt_us" csv:"rtt_us" interval:"-"`
	MinRTT      *Figure   `json:"min_rtt_us" interval:"-"`
}

// A Direction is the traffic in one direction, per request. Figures are null if not measured; only
// bytes has an interval.
type Direction struct {
	Bytes     Figure  `json:"bytes" csv:"bytes_per_request"` // payload bytes of segments or datagrams
	Handshake *Figure `json:"handshake" interval:"-"`        // bytes per request that were sent before a connection's first call
	Packets   *Figure `json:"packets" csv:"packets_per_request" interval:"-"`
	PureAcks  *Figure `json:"pure_acks" interval:"-"`                               // segments without payload
	PerCall   *Figure `json:"packets_per_call" csv:"packets_per_call" interval:"-"` // packets per system call
}

// trafficOf returns the traffic of the trials, or nil if a trial did not measure it.
func trafficOf(from usable) *Traffic {
	trials := from.bytes
	if !everyTrial(trials, func(t Trial) bool { return t.Traffic != nil && t.Completed > 0 }) {
		return nil
	}
	one, timed := trials[0].Traffic, Filter(from.times, func(t Trial) bool { return t.Traffic != nil })
	return &Traffic{
		Transport: one.Transport, Offload: one.Offload,
		Sent: directionOf(trials, func(t *record.Traffic) directionCounters {
			return directionCounters{t.SentBytes, t.HandshakeSentBytes, t.SentPackets, t.SentPureAcks, t.SendCalls}
		}),
		Received: directionOf(trials, func(t *record.Traffic) directionCounters {
			return directionCounters{t.ReceivedBytes, t.HandshakeReceivedBytes, t.ReceivedPackets, t.ReceivedPureAcks, t.ReceiveCalls}
		}),
		Retransmits: KnownFigure(trials, Retransmits),
		RTT:         KnownFigure(timed, func(t Trial) float64 { return Number(t.Traffic.RTTNS) / 1e3 }),
		MinRTT:      KnownFigure(timed, func(t Trial) float64 { return Number(t.Traffic.MinRTTNS) / 1e3 }),
	}
}

type directionCounters struct {
	bytes                               int64
	handshake, packets, pureAcks, calls *int64
}

func directionOf(trials []Trial, of func(*record.Traffic) directionCounters) Direction {
	perRequest := func(count func(directionCounters) *int64) *Figure {
		return KnownFigure(trials, func(t Trial) float64 { return Number(count(of(t.Traffic))) / RequestsSeen(t) })
	}
	return Direction{
		Bytes:     FigureOver(trials, func(t Trial) float64 { return float64(of(t.Traffic).bytes) / RequestsSeen(t) }),
		Handshake: perRequest(func(c directionCounters) *int64 { return c.handshake }),
		Packets:   perRequest(func(c directionCounters) *int64 { return c.packets }),
		PureAcks:  perRequest(func(c directionCounters) *int64 { return c.pureAcks }),
		PerCall: KnownFigure(trials, func(t Trial) float64 {
			if c := of(t.Traffic); Number(c.calls) != 0 {
				return Number(c.packets) / Number(c.calls)
			}
			return math.NaN()
		}),
	}
}

// Wire holds the bytes that one call puts on the wire, layer by layer.
type Wire struct {
	Request           WireBytes `json:"request" csv:"request_*"`
	Response          WireBytes `json:"response" csv:"response_*"`
	FirstSent         Figure    `json:"first_sent_bytes" interval:"-"` // bytes of a connection's first call
	FirstReceived     Figure    `json:"first_received_bytes" interval:"-"`
	HandshakeSent     Figure    `json:"handshake_sent_bytes" interval:"-"` // bytes of a connection outside of calls
	HandshakeReceived Figure    `json:"handshake_received_bytes" interval:"-"`
}

// WireBytes counts the bytes of a call in one direction, by layer. A layer is null if its bytes
// cannot be separated.
type WireBytes struct {
	Message   Figure  `json:"message_bytes" interval:"-"`
	Protocol  Figure  `json:"protocol_bytes" interval:"-"`
	Security  *Figure `json:"security_bytes" interval:"-"`
	Transport *Figure `json:"transport_bytes" interval:"-"`
	Acks      *Figure `json:"ack_bytes" interval:"-"`
	Total     Figure  `json:"total_bytes" csv:"bytes" interval:"-"`
}

// wireOf returns the bytes of a call, or nil if no trial counted them.
func wireOf(trials []Trial) *Wire {
	looked := Filter(trials, func(t Trial) bool { return t.Wire != nil })
	if len(looked) == 0 {
		return nil
	}
	of := func(field func(*record.Wire) float64) Figure {
		return FigureOver(looked, func(t Trial) float64 { return field(t.Wire) })
	}
	return &Wire{
		Request:           wireBytesOf(looked, func(w *record.Wire) record.WireBytes { return w.Request }),
		Response:          wireBytesOf(looked, func(w *record.Wire) record.WireBytes { return w.Response }),
		FirstSent:         of(func(w *record.Wire) float64 { return w.FirstSentBytes }),
		FirstReceived:     of(func(w *record.Wire) float64 { return w.FirstReceivedBytes }),
		HandshakeSent:     of(func(w *record.Wire) float64 { return w.HandshakeSentBytes }),
		HandshakeReceived: of(func(w *record.Wire) float64 { return w.HandshakeReceivedBytes }),
	}
}

func wireBytesOf(trials []Trial, side func(*record.Wire) record.WireBytes) WireBytes {
	layer := func(field func(record.WireBytes) *float64) *Figure {
		return KnownFigure(trials, func(t Trial) float64 { return Number(field(side(t.Wire))) })
	}
	return WireBytes{
		Message:   FigureOver(trials, func(t Trial) float64 { return side(t.Wire).MessageBytes }),
		Protocol:  FigureOver(trials, func(t Trial) float64 { return side(t.Wire).ProtocolBytes }),
		Security:  layer(func(b record.WireBytes) *float64 { return b.SecurityBytes }),
		Transport: layer(func(b record.WireBytes) *float64 { return b.TransportBytes }),
		Acks:      layer(func(b record.WireBytes) *float64 { return b.AckBytes }),
		Total:     FigureOver(trials, func(t Trial) float64 { return side(t.Wire).TotalBytes() }),
	}
}

// Bulk holds the cost and the rate of a load with large messages.
type Bulk struct {
	ServerCPU *Figure `json:"server_cpu_s_per_gb"` // CPU seconds of the server per gigabyte; null if not measured
	Rate      Figure  `json:"gb_per_second"`       // gigabytes of messages per second, requests and answers together
}

const (
	leastBulk = 1 << 20 // least number of message bytes per call
	gigabyte  = 1e9
)

// bulkOf returns nil if messages are small, or if no trial counted the bytes of messages.
func bulkOf(from usable) *Bulk {
	looked := func(trials []Trial) []Trial { return Filter(trials, func(t Trial) bool { return t.Wire != nil }) }
	carried := func(t Trial) float64 { return t.Wire.Request.MessageBytes + t.Wire.Response.MessageBytes }
	if counted := looked(from.bytes); len(counted) == 0 || FigureOver(counted, carried).Value < leastBulk {
		return nil
	}
	return &Bulk{
		ServerCPU: KnownFigure(looked(from.cpu), func(t Trial) float64 { return cpuOf(t, t.Server) / 1e6 / (carried(t) / gigabyte) }),
		Rate:      FigureOver(looked(from.times), func(t Trial) float64 { return throughput(t) * carried(t) / gigabyte }),
	}
}
