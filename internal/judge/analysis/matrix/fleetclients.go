package matrix

import (
	"math"
	"slices"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/check"
)

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
