// Package doctor says what this machine can measure, what it cannot, and why: its networks,
// congestion controls, probes, and the load engine itself.
package doctor

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/link"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/wire/congestion"
)

// A Diagnosis says what this machine can measure.
type Diagnosis struct {
	Machine  host.Info      `json:"machine"`
	Place    host.Placement `json:"placement"`
	Findings []host.Finding `json:"findings"`
	Probes   []Probe        `json:"probes"`
	Engine   Engine         `json:"engine"`
	Links    *link.Cost     `json:"links,omitempty"` // absent where there are none
}

// Engine has the figures of the load engine itself, on this machine, now.
type Engine struct {
	OwnNS         float64 `json:"own_ns"`          // a request, closed loop
	LateP50NS     int64   `json:"late_p50_ns"`     // open loop, at Rate
	LateP99NS     int64   `json:"late_p99_ns"`     //
	RatePerSecond float64 `json:"rate_per_second"` //
	Queued        float64 `json:"queued_share"`    // of the arrivals
	Error         string  `json:"error,omitempty"`
}

// Examine tries everything, in some seconds.
func Examine(ctx context.Context) Diagnosis {
	d := Diagnosis{Machine: host.Describe(), Findings: host.Doctor(ctx)}
	networks, cost := findNetworks(ctx)
	d.Findings, d.Links = append(append(d.Findings, networks...), findCongestion(networks[0])), cost
	d.Probes, d.Engine = examineProbes(ctx), measureEngine(ctx)
	d.Place = host.Place(d.Machine.Topology, host.Want{})
	return d
}

// findCongestion says which congestion controls variants can ask for. One that the kernel
// has and this user may not choose can be chosen in a network that the user made.
func findCongestion(networks host.Finding) host.Finding {
	f := host.Finding{Name: "congestion control", Status: host.OK}
	var have, lack []string
	for _, name := range []string{"cubic", "reno", "bbr"} {
		err := congestion.Check(name)
		switch {
		case err == nil:
			have = append(have, "cc="+name)
		case networks.Status == host.OK && slices.Contains(congestion.Available(), name):
			have = append(have, "cc="+name+" (over links and in other networks of a trial's own only)")
		default:
			lack = append(lack, "cc="+name)
			f.Status, f.Remedy = host.Limited, err.Error()
		}
	}
	f.Detail = strings.Join(have, ", ") + "; connections have " + cmp.Or(congestion.Default(), "one that is not known") + " by default"
	if len(lack) > 0 {
		f.Detail += "; not " + strings.Join(lack, ", ")
	}
	return f
}

// The open loop that measureEngine tries.
const (
	tryRate   = 100_000
	tryWindow = 300 * time.Millisecond
)

// atOnce answers at once: no stack can be faster.
type atOnce struct{}

func (atOnce) Call(context.Context) error { return nil }

// measureEngine runs the load engine against a stack that costs nothing.
func measureEngine(ctx context.Context) Engine {
	f := Engine{RatePerSecond: tryRate, OwnNS: load.OwnCost(ctx)}
	r, err := load.Run(ctx, load.Plan{
		Callers:  []load.Caller{atOnce{}, atOnce{}},
		Duration: tryWindow, Drain: time.Second,
		Open: &load.Arrivals{RatePerSecond: tryRate},
	})
	if err != nil {
		f.Error = err.Error()
		return f
	}
	defer r.Close()
	f.LateP50NS, f.LateP99NS = int64(r.Late.Quantile(0.5)), int64(r.Late.Quantile(0.99))
	f.Queued = float64(r.Pacing.Queued) / float64(max(1, r.Requests))
	return f
}
