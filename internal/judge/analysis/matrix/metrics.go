package matrix

import (
	"cmp"
	"math"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
)

// A Metric returns a figure of one trial, or NaN if the trial does not have it: it was not measured,
// or a check spoils it.
type Metric func(Trial) float64

// known returns the figure, or NaN for a trial without a measurement.
func (of Metric) known(t Trial) float64 {
	if t.Failure != "" {
		return math.NaN()
	}
	return of(t)
}

// Unspoiled returns a metric that is NaN for trials whose checks spoil figures of the kind.
func Unspoiled(kind record.FigureKind, of Metric) Metric {
	return func(t Trial) float64 {
		if !t.has(kind) {
			return math.NaN()
		}
		return of(t)
	}
}

// Values returns a metric's figures, one per trial.
func Values(trials []Trial, of Metric) []float64 {
	figures := make([]float64, len(trials))
	for i, t := range trials {
		figures[i] = of(t)
	}
	return figures
}

// FigureOver returns the median of a metric over trials, with an interval.
func FigureOver(trials []Trial, of Metric) Figure {
	return shown(figure(Values(trials, of), levelFor(trials)), trials)
}

func levelFor(trials []Trial) Level {
	if len(trials) == 0 {
		return 0
	}
	return trials[0].level
}

// shown returns a figure without its interval if the trials are refused. An interval would make the
// figure look trustworthy.
func shown(f Figure, trials []Trial) Figure {
	if len(trials) > 0 && trials[0].refused {
		f.Interval = nil
	}
	return f
}

// having returns the trials that have a metric.
func having(trials []Trial, of Metric) []Trial {
	return Filter(trials, func(t Trial) bool { return !math.IsNaN(of.known(t)) })
}

// KnownFigure returns FigureOver's figure for trials that measured the metric, or nil without any.
func KnownFigure(trials []Trial, of Metric) *Figure {
	if trials = having(trials, of); len(trials) == 0 {
		return nil
	}
	return new(FigureOver(trials, of))
}

// KnownValues returns a metric's figures for the trials that have it.
func KnownValues(trials []Trial, of Metric) []float64 { return Values(having(trials, of), of) }

func serviceTimes(t Trial) times { return t.service }

func responseTimes(t Trial) times { return t.response }

func waitTimes(t Trial) times { return t.wait }

// warmUpMS returns the length of the warm-up in milliseconds, or NaN if another program measured.
func warmUpMS(t Trial) float64 {
	if t.Foreign != nil {
		return math.NaN()
	}
	return float64(t.WarmUp.TookNS) / 1e6
}

// ClientOf returns the client of a trial.
func ClientOf(t Trial) record.Process { return t.Client }

// ServerOf returns the server of a trial.
func ServerOf(t Trial) record.Process { return t.Server }

// cpuTimeNS returns a process's CPU time in nanoseconds, or NaN if it was not measured.
func cpuTimeNS(p record.Process) float64 {
	if ns, ok := p.CPUNS(); ok {
		return float64(ns)
	}
	return math.NaN()
}

// cpuOf returns the CPU time of one end per request, in microseconds.
func cpuOf(t Trial, p record.Process) float64 { return PerCall(t, cpuTimeNS(p)) / 1e3 }

// PerCall divides an amount by the calls that ended while it was measured, or returns NaN.
func PerCall(t Trial, amount float64) float64 {
	if t.Ended() == 0 {
		return math.NaN()
	}
	return amount / float64(t.Ended())
}

func coresInUse(t Trial, p record.Process) float64 {
	if t.WindowNS <= 0 {
		return math.NaN()
	}
	return cpuTimeNS(p) / t.AtWorkNS()
}

// futexCalls returns the futex system calls per request, or NaN if system calls were not counted.
func futexCalls(t Trial, p record.Process) float64 {
	if p.Seen == nil || len(p.Seen.Syscalls) == 0 {
		return math.NaN()
	}
	for _, call := range p.Seen.Syscalls {
		if call.Name == "futex" {
			return PerCall(t, float64(call.Count))
		}
	}
	return 0
}

// shareOfCPU returns the share of a process's CPU time that one task of Go's runtime used. It
// returns at most 1, although the runtime also counts time before the window.
func shareOfCPU(p record.Process, ns *int64) float64 {
	if cpuTimeNS(p) == 0 {
		return math.NaN()
	}
	return min(1, Number(ns)/cpuTimeNS(p))
}

// collectorShare returns the garbage collector's share of CPU time, or NaN for other programs.
func collectorShare(p record.Process) float64 {
	if p.Goroutines == nil {
		return math.NaN()
	}
	return shareOfCPU(p, p.GCCPUNS)
}

// peakOfServer returns the server's largest memory, if possible without the program file's pages,
// which all stacks share.
func peakOfServer(t Trial) float64 { return Number(cmp.Or(t.Server.OwnBytes, t.Server.PeakBytes)) }

// RequestsSeen returns about how many requests ended while the traffic was counted. The counting
// may last slightly longer or shorter than the window, in which the client made other calls, too.
func RequestsSeen(t Trial) float64 {
	alone := t.Outside != nil && *t.Outside == 0
	if t.Traffic.SpanNS == 0 || t.WindowNS == 0 || len(t.Slices) > 0 || alone {
		return float64(t.Ended())
	}
	return float64(t.Ended()) * float64(t.Traffic.SpanNS) / float64(t.WindowNS+t.PausedNS)
}

// Retransmits returns the retransmits per thousand requests.
func Retransmits(t Trial) float64 { return 1000 * Number(t.Traffic.Retransmits) / RequestsSeen(t) }

// OpenedConnections returns the number of opened connections, at most the wanted number.
func OpenedConnections(t Trial) float64 {
	if t.Connections.Want > 0 {
		return min(float64(t.Connections.Opened), float64(t.Connections.Want))
	}
	return float64(t.Connections.Opened)
}

// P99Requests is the number of requests per trial that a comparison of P99 needs.
var P99Requests = stats.LeastCountForQuantile(0.99)

// IsMeaningful reports whether variants can be compared by a metric under a load. A schedule fixes
// the throughput of all variants. A search ends at a different rate for each variant, so only the
// rate can be compared.
func IsMeaningful(model, metric string) bool {
	switch model {
	case "open", "sustained", "ramp", record.Paced:
		return metric != Throughput
	case "search":
		return metric == Throughput
	}
	return true
}

// Metrics whose names this code uses. Claims may also use other metrics.
const (
	Mean        = "mean"    // response time
	Median      = "p50"     // response time
	P99         = "p99"     // response time
	Tail        = "tail"    // P99 of the response time divided by P50
	ServiceMean = "service" // service time
	ServiceP99  = "service-p99"
	Throughput  = "throughput"  // successful answers per second, for loads without a schedule
	CPU         = "cpu"         // CPU time per request of client and server together
	Handshake   = "handshake"   // median time of a handshake
	FirstByte   = "first-byte"  // median time from a call's beginning to the answer's first byte
	ServerPeak  = "server-peak" // largest memory of the server, in bytes

	clientCPU = "client-cpu"
	serverCPU = "server-cpu"
)

// endMetrics holds the figures that both ends have, by the kind of faults that spoil them. Their full
// names begin with "client-" or "server-".
var endMetrics = map[record.FigureKind]map[string]func(Trial, record.Process) float64{
	record.CPUTime: {
		"cpu":    cpuOf,
		"user":   func(_ Trial, p record.Process) float64 { return Number(p.UserNS) / cpuTimeNS(p) },
		"gc":     func(_ Trial, p record.Process) float64 { return collectorShare(p) },
		"assist": func(_ Trial, p record.Process) float64 { return shareOfCPU(p, p.GCAssistNS) },
	},
	record.Counts: {
		"switches": func(t Trial, p record.Process) float64 {
			return PerCall(t, Number(p.SwitchesVol)+Number(p.SwitchesInv))
		},
		"faults": func(t Trial, p record.Process) float64 {
			return PerCall(t, Number(p.MinorFaults)+Number(p.MajorFaults))
		},
		"futex": futexCalls,
	},
	record.Times: {
		"run-wait": func(_ Trial, p record.Process) float64 { return Number(p.SchedP99NS) / 1e3 }, // P99 of a goroutine's wait for a CPU
	},
}

// metricsByKind holds the other figures for comparisons and claims, by the kind of faults that spoil
// them. Nothing spoils the figures without a kind: they say what happened.
var metricsByKind = map[record.FigureKind]map[string]Metric{
	record.Times: {
		Mean:              func(t Trial) float64 { return t.response.mean },
		Median:            func(t Trial) float64 { return t.response.quantile(0.5) },
		"p90":             func(t Trial) float64 { return t.response.quantile(0.9) },
		"p95":             func(t Trial) float64 { return t.response.quantile(0.95) },
		P99:               func(t Trial) float64 { return t.response.quantile(0.99) },
		Tail:              func(t Trial) float64 { return t.response.tail() },
		ServiceMean:       func(t Trial) float64 { return t.service.mean },
		ServiceP99:        func(t Trial) float64 { return t.service.quantile(0.99) },
		Throughput:        throughput,
		"server-cores":    func(t Trial) float64 { return coresInUse(t, t.Server) },
		"trips":           medianInRoundTrips(func(t Trial) times { return t.response }),
		"connect-trips":   medianInRoundTrips(func(t Trial) times { return t.connect }),
		"handshake-trips": medianInRoundTrips(func(t Trial) times { return t.handshake }),
		Handshake:         func(t Trial) float64 { return t.handshake.quantile(0.5) },
		FirstByte:         func(t Trial) float64 { return t.firstByte.quantile(0.5) },
	},
	record.CPUTime: {
		CPU:    func(t Trial) float64 { return cpuOf(t, t.Client) + cpuOf(t, t.Server) },
		"busy": func(t Trial) float64 { return max(Number(t.Client.Busy), Number(t.Server.Busy)) },
	},
	record.Bytes: {
		"server-memory":  peakOfServer,
		ServerPeak:       peakOfServer,
		"request-bytes":  wireBytes(func(w *record.Wire) record.WireBytes { return w.Request }),
		"response-bytes": wireBytes(func(w *record.Wire) record.WireBytes { return w.Response }),
	},
	noKind: {
		"answered":    answeredShare,
		"opened":      func(t Trial) float64 { return t.ifOwnClient(PerCall(t, float64(t.Connections.During))) },
		"connections": func(t Trial) float64 { return t.ifOwnClient(float64(t.Connections.During)) },
	},
}

const noKind record.FigureKind = ""

// Metrics holds the figures for comparisons and claims, and kindOf the kind of each. Package claim
// uses the same names.
var Metrics, kindOf = func() (map[string]Metric, map[string]record.FigureKind) {
	all, kinds := map[string]Metric{}, map[string]record.FigureKind{}
	add := func(name string, kind record.FigureKind, of Metric) {
		if all[name], kinds[name] = of, kind; kind != noKind {
			all[name] = Unspoiled(kind, of)
		}
	}
	for kind, metrics := range metricsByKind {
		for name, of := range metrics {
			add(name, kind, of)
		}
	}
	for kind, metrics := range endMetrics {
		for name, of := range metrics {
			add("client-"+name, kind, func(t Trial) float64 { return of(t, t.Client) })
			add("server-"+name, kind, func(t Trial) float64 { return of(t, t.Server) })
		}
	}
	return all, kinds
}()

func throughput(t Trial) float64 { return t.throughput }

// answeredShare returns the share of requests that were answered. If all failed, it returns
// 0.00001, so that ratios exist.
func answeredShare(t Trial) float64 {
	const least = 1e-5
	if t.Requests == 0 {
		return math.NaN()
	}
	return max(least, 1-float64(t.Failed())/float64(t.Requests))
}

// medianInRoundTrips returns a metric: a median divided by the link's round-trip time.
func medianInRoundTrips(of func(Trial) times) Metric {
	return func(t Trial) float64 {
		if t.Cell.Network.DelayNS == 0 {
			return math.NaN()
		}
		return of(t).quantile(0.5) * 1e3 / float64(2*t.Cell.Network.DelayNS)
	}
}

func wireBytes(side func(*record.Wire) record.WireBytes) Metric {
	return func(t Trial) float64 {
		if t.Wire == nil {
			return math.NaN()
		}
		return side(t.Wire).TotalBytes()
	}
}
