package matrix

import (
	"math"
	"slices"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/check"
)

// An End holds what one end cost over the window, besides its CPU time per request. Figures
// are null if they were not measured; of these, peak_bytes alone has an interval.
type End struct {
	Share      *Figure `json:"cpu_share" csv:"cpu_share" label:"Share of CPU" interval:"-"`  // of the CPU time of both ends
	Busy       *Figure `json:"busy" csv:"busy_share" label:"Busy" unit:"share" interval:"-"` // share of the CPUs it was given
	Collector  *Figure `json:"gc_share" csv:"gc_share" label:"Collector" interval:"-"`       // of its own CPU time, that its garbage collector took
	Cores      *Figure `json:"cores" interval:"-"`                                           // of them in use: CPU time by time
	RSS        *Figure `json:"rss_bytes" csv:"rss_bytes" label:"Memory" interval:"-"`        // at the window's end
	Peak       *Figure `json:"peak_bytes" csv:"peak_bytes" label:"At its peak"`              // the most in the window
	Own        *Figure `json:"own_bytes" csv:"own_bytes" label:"Its own" interval:"-"`       // the most without the pages of files, which all that run the program share
	Heap       *Figure `json:"heap_bytes" csv:"heap_bytes" label:"Heap" interval:"-"`
	Threads    *Figure `json:"threads" csv:"threads" label:"Threads" interval:"-"` // the most at once, as the next two
	Sockets    *Figure `json:"sockets" csv:"sockets" label:"Sockets" interval:"-"`
	Goroutines *Figure `json:"goroutines" csv:"goroutines" label:"Goroutines" interval:"-"`
}

// endOf returns the cost of one end. other picks the end that it shares the work with.
func endOf(trials []Trial, of, other func(Trial) record.Process) End {
	count := func(field func(record.Process) *int64) *Figure {
		return Known(trials, func(t Trial) float64 { return Number(field(of(t))) })
	}
	return End{
		Share:      Known(trials, func(t Trial) float64 { return cpuTime(of(t)) / (cpuTime(of(t)) + cpuTime(other(t))) }), // NaN if neither used any
		Busy:       Known(trials, func(t Trial) float64 { return Number(of(t).Busy) }),
		Collector:  Known(trials, func(t Trial) float64 { return collectorShare(of(t)) }),
		Cores:      Known(trials, func(t Trial) float64 { return coresInUse(t, of(t)) }),
		RSS:        count(func(p record.Process) *int64 { return p.RSSBytes }),
		Peak:       count(func(p record.Process) *int64 { return p.PeakBytes }),
		Heap:       count(func(p record.Process) *int64 { return p.HeapBytes }),
		Own:        count(func(p record.Process) *int64 { return p.OwnBytes }),
		Threads:    count(func(p record.Process) *int64 { return p.Threads }),
		Sockets:    count(func(p record.Process) *int64 { return p.Sockets }),
		Goroutines: count(func(p record.Process) *int64 { return p.Goroutines }),
	}
}

// A FleetClient holds what one of several clients did, in the median of the trials that the
// cell's figures come from.
type FleetClient struct {
	Agent      string       `json:"agent"`                                                             // its name
	Clients    int          `json:"clients"`                                                           // of the cell's
	Throughput float64      `json:"throughput_rps"`                                                    // successful answers per second
	P50        *float64     `json:"p50_us" jsonschema:"nullable"`                                      // of the response times; null if too few requests lie beyond
	P99        *float64     `json:"p99_us" jsonschema:"nullable"`                                      // likewise
	CPU        *float64     `json:"cpu_us" jsonschema:"nullable"`                                      // CPU time per request; null if it was not measured
	Busy       *float64     `json:"busy_share" jsonschema:"nullable"`                                  // of the CPUs that it was given; null if it was not measured
	Level      record.Level `json:"level" jsonschema:"enum=ok,enum=warning,enum=invalid,enum=unknown"` // the worst that a check says of it in any trial
	Detail     string       `json:"detail"`                                                            // the check and its reason; empty if it is ok
}

// A clientOfFleet is one client of one trial.
type clientOfFleet struct {
	*record.FleetClient
	checks []record.Check
}

// fleetClients returns the clients of a cell's trials, by their agents.
func fleetClients(trials []Trial) []FleetClient {
	by := map[string][]clientOfFleet{}
	var names []string
	for _, t := range trials {
		for i, judged := range check.Clients(t.Record, t.limits) {
			if by[judged.Agent] == nil {
				names = append(names, judged.Agent)
			}
			by[judged.Agent] = append(by[judged.Agent], clientOfFleet{&t.Fleet.Clients[i], judged.Checks})
		}
	}
	slices.Sort(names)
	var all []FleetClient
	for _, name := range names {
		all = append(all, summarizeClient(by[name]))
	}
	return all
}

func summarizeClient(of []clientOfFleet) FleetClient {
	median := func(figure func(clientOfFleet) float64) *float64 {
		var known []float64
		for _, c := range of {
			if v := figure(c); !math.IsNaN(v) {
				known = append(known, v)
			}
		}
		if len(known) == 0 {
			return nil
		}
		return new(stats.Median(known))
	}
	quantile := func(q float64, ns func(clientOfFleet) int64) *float64 {
		return median(func(c clientOfFleet) float64 {
			if c.Requests < stats.LeastCount(q) {
				return math.NaN()
			}
			return float64(ns(c)) / 1e3
		})
	}
	s := FleetClient{
		Agent: of[0].Name, Clients: of[0].Clients, Level: record.Unknown,
		Throughput: *median(func(c clientOfFleet) float64 {
			return float64(max(0, c.Completed-c.Failed)) / float64(max(1, c.WindowNS)) * 1e9
		}),
		P50: quantile(0.5, func(c clientOfFleet) int64 { return c.P50NS }),
		P99: quantile(0.99, func(c clientOfFleet) int64 { return c.P99NS }),
		CPU: median(func(c clientOfFleet) float64 {
			spent, known := c.Process.CPUNS()
			if !known || c.Completed == 0 {
				return math.NaN()
			}
			return float64(spent) / float64(c.Completed) / 1e3
		}),
		Busy: median(func(c clientOfFleet) float64 { return Number(c.Process.Busy) }),
	}
	for _, c := range of {
		for _, check := range c.checks {
			if check.Level.Gravity() > s.Level.Gravity() {
				s.Level, s.Detail = check.Level, ""
				if check.Level != record.OK {
					s.Detail = check.Name + ": " + check.Detail
				}
			}
		}
	}
	return s
}
