package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/link"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/wire/congestion"
)

// diagnosis is what doctor found.
type diagnosis struct {
	Machine  host.Info      `json:"machine"`
	Place    host.Placement `json:"placement"`
	Findings []host.Finding `json:"findings"`
	Probes   []probeFinding `json:"probes"`
	Engine   engineFigures  `json:"engine"`
	Links    *link.Cost     `json:"links,omitempty"` // absent where there are none
}

// engineFigures are the load engine's own, on this machine, now.
type engineFigures struct {
	OwnNS         float64 `json:"own_ns"`          // a request, closed loop
	LateP50NS     int64   `json:"late_p50_ns"`     // open loop, at Rate
	LateP99NS     int64   `json:"late_p99_ns"`     //
	RatePerSecond float64 `json:"rate_per_second"` //
	Queued        float64 `json:"queued_share"`    // of the arrivals
	Error         string  `json:"error,omitempty"`
}

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can measure, what it cannot, and why",
		Example: `  wirelab doctor
  wirelab doctor --json | jq '.findings[] | select(.status != "ok")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			d := diagnosis{Machine: host.Describe(), Findings: host.Doctor(ctx)}
			networks, cost := findNetworks(ctx)
			d.Findings, d.Links = append(append(d.Findings, networks...), findCongestion(networks[0])), cost
			d.Probes, d.Engine = examineProbes(ctx), measureEngine(ctx)
			d.Place = host.Place(d.Machine.Topology, host.Want{})
			if asJSON {
				return a.printJSON(d)
			}
			return a.printDiagnosis(d)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
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

// The open loop that doctor tries.
const (
	doctorRate   = 100_000
	doctorWindow = 300 * time.Millisecond
)

// atOnce is the fastest stack there can be.
type atOnce struct{}

func (atOnce) Call(context.Context) error { return nil }

// measureEngine runs the load engine against a stack that costs nothing.
func measureEngine(ctx context.Context) engineFigures {
	f := engineFigures{RatePerSecond: doctorRate, OwnNS: load.OwnCost(ctx)}
	r, err := load.Run(ctx, load.Plan{
		Callers:  []load.Caller{atOnce{}, atOnce{}},
		Duration: doctorWindow, Drain: time.Second,
		Open: &load.Arrivals{RatePerSecond: doctorRate},
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

func (a *app) printDiagnosis(d diagnosis) error {
	m := d.Machine
	fmt.Fprintf(a.stdout, "%s, %d cores, kernel %s, %s\n", m.CPUModel, m.Cores, m.Kernel, m.Go.Version)
	fmt.Fprintf(a.stdout, "servers run on CPUs %v, clients on CPUs %v\n\n", d.Place.Server, d.Place.Client)
	for _, w := range d.Place.Warnings {
		fmt.Fprintf(a.stdout, "%-8s %s\n", "limited", w)
	}
	for _, f := range d.Findings {
		fmt.Fprintf(a.stdout, "%-8s %s: %s\n", f.Status, f.Name, f.Detail)
		if f.Remedy != "" {
			fmt.Fprintf(a.stdout, "%-8s   %s\n", "", f.Remedy)
		}
	}
	a.printProbes(d.Probes)
	fmt.Fprintf(a.stdout, "\nThe load engine itself, against a stack that answers at once:\n")
	fmt.Fprintf(a.stdout, "  closed loop   %.0f ns a request\n", d.Engine.OwnNS)
	if d.Engine.Error != "" {
		fmt.Fprintf(a.stdout, "  open loop     %s\n", d.Engine.Error)
		return nil
	}
	_, err := fmt.Fprintf(a.stdout, "  open loop     late by %v in the median and %v at P99, at %.0f requests a second; %.2g %% found no free client\n",
		time.Duration(d.Engine.LateP50NS), time.Duration(d.Engine.LateP99NS), d.Engine.RatePerSecond, 100*d.Engine.Queued)
	return err
}
