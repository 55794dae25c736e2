// Package doctor reports what this machine can measure, and why it cannot measure the rest. It
// examines networks, congestion controls, probes and the load engine.
package doctor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/link"
	"wirelab.dev/internal/machine/probe"
	probes "wirelab.dev/internal/machine/probe/catalog"
	"wirelab.dev/internal/machine/probe/price"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/wire/sockopt"
)

// A Diagnosis reports what this machine can measure.
type Diagnosis struct {
	Machine  host.Info      `json:"machine"`
	Place    host.Placement `json:"placement"`
	Findings []host.Finding `json:"findings"`
	Probes   []Probe        `json:"probes"`
	Engine   EngineFigures  `json:"engine"`
	Links    *link.Cost     `json:"links,omitempty"` // nil if this machine cannot make links
}

// EngineFigures holds the costs and delays that the load engine itself adds to a measurement.
type EngineFigures struct {
	OwnNS         float64 `json:"own_ns"`          // the engine's own time per request
	LateP50NS     int64   `json:"late_p50_ns"`     // median lateness in an open loop
	LateP99NS     int64   `json:"late_p99_ns"`     // 99th percentile of that lateness
	RatePerSecond float64 `json:"rate_per_second"` // rate of the open loop
	Queued        float64 `json:"queued_share"`    // share of requests that waited for a client
	Error         string  `json:"error,omitempty"`
}

// Examine tests all networks, all probes and the load engine. It takes some seconds.
func Examine(ctx context.Context) Diagnosis {
	d := Diagnosis{Machine: host.Describe(), Findings: host.Doctor(ctx)}
	networks, cost := findNetworks(ctx)
	d.Findings, d.Links = append(append(d.Findings, networks...), findCongestion(networks[0])), cost
	d.Probes, d.Engine = examineProbes(ctx), measureEngine(ctx)
	d.Place = host.Place(d.Machine.Topology)
	return d
}

// Write prints the diagnosis for people.
func (d Diagnosis) Write(w io.Writer) error {
	m := d.Machine
	fmt.Fprintf(w, "%s, %d cores, kernel %s, %s\n", m.CPUModel, m.Cores, m.Kernel, m.Go.Version)
	fmt.Fprintf(w, "servers run on CPUs %v, clients on CPUs %v\n\n", d.Place.Server, d.Place.Client)
	for _, warning := range d.Place.Warnings {
		fmt.Fprintf(w, "%-8s %s\n", "limited", warning)
	}
	for _, f := range d.Findings {
		fmt.Fprintf(w, "%-8s %s: %s\n", f.Status, f.Name, f.Detail)
		if f.Remedy != "" {
			fmt.Fprintf(w, "%-8s   %s\n", "", f.Remedy)
		}
	}
	printProbes(w, d.Probes)
	fmt.Fprintf(w, "\nCost of the load engine itself, measured with a stack that answers at once:\n")
	fmt.Fprintf(w, "  closed loop   %.0f ns per request\n", d.Engine.OwnNS)
	if d.Engine.Error != "" {
		fmt.Fprintf(w, "  open loop     %s\n", d.Engine.Error)
		return nil
	}
	_, err := fmt.Fprintf(w, "  open loop     requests start late by %v in the median and %v at P99, at %.0f requests per second; %.2f %% of the requests waited for a free client\n",
		time.Duration(d.Engine.LateP50NS), time.Duration(d.Engine.LateP99NS), d.Engine.RatePerSecond, 100*d.Engine.Queued)
	return err
}

func printProbes(w io.Writer, all []Probe) {
	fmt.Fprintf(w, "\nThe probes (--probe), and the time that each adds to a system call and to a one-byte round trip between threads:\n")
	for _, p := range all {
		cost := ""
		if p.Price != nil {
			cost = fmt.Sprintf(": system call %+.0f ns (without the probe %.0f), round trip %+.1f µs (without the probe %.1f)", p.Price.Syscall.AddedNS(), p.Price.Syscall.BareNS,
				p.Price.Switch.AddedNS()/1e3, p.Price.Switch.BareNS/1e3)
		}
		if p.Method != "" {
			cost = ": " + p.Method + cost
		}
		fmt.Fprintf(w, "%-8s %s%s\n", p.Status, p.Name, cost)
		for _, missing := range p.Missing {
			fmt.Fprintf(w, "%-8s   without %s\n", "", missing)
		}
	}
}

// findCongestion reports which congestion controls a variant can use. Without root rights, some of
// the kernel's congestion controls work only in a network that the user made.
func findCongestion(networks host.Finding) host.Finding {
	f := host.Finding{Name: "congestion control", Status: host.OK}
	var have, lack []string
	for _, name := range []string{"cubic", "reno", "bbr"} {
		err := sockopt.Check(name)
		switch {
		case err == nil:
			have = append(have, "cc="+name)
		case networks.Status == host.OK && slices.Contains(sockopt.Available(), name):
			have = append(have, "cc="+name+" (only over links and in a trial's own network)")
		default:
			lack = append(lack, "cc="+name)
			f.Status, f.Remedy = host.Limited, err.Error()
		}
	}
	f.Detail = strings.Join(have, ", ") + "; the default is " + cmp.Or(sockopt.Default(), "unknown")
	if len(lack) > 0 {
		f.Detail += "; not available: " + strings.Join(lack, ", ")
	}
	return f
}

// The settings of the open loop with which measureEngine tests the engine.
const (
	engineRate   = 100_000
	engineWindow = 300 * time.Millisecond
)

// instantCaller is a caller whose calls return at once. No real stack can be faster.
type instantCaller struct{}

func (instantCaller) Call(context.Context) error { return nil }

// measureEngine measures the load engine with calls that take no time.
func measureEngine(ctx context.Context) EngineFigures {
	f := EngineFigures{RatePerSecond: engineRate, OwnNS: load.OwnCost(ctx)}
	r, err := load.Run(ctx, load.Plan{
		Callers:  []load.Caller{instantCaller{}, instantCaller{}},
		Duration: engineWindow, Drain: time.Second,
		Open: &load.Arrivals{RatePerSecond: engineRate},
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

// findNetworks reports whether this machine can make a network for a trial. It also returns the
// cost of emulated links, or nil if this machine cannot make links.
func findNetworks(ctx context.Context) ([]host.Finding, *link.Cost) {
	f := host.Finding{Name: "a trial's own network", Status: host.OK, Detail: "can be made, with links that delay, lose and reorder (--link)"}
	measure := link.MeasureCost
	if link.CheckSupport() != nil {
		if why := plan.WhyNoUserNamespace(ctx); why != "" {
			f.Status, f.Detail, f.Remedy = host.Missing, "`network` and --link fail", why
			return []host.Finding{f}, nil
		}
		f.Detail += ", in a user namespace: wirelab restarts itself there"
		measure = measureCostInUserNamespace
	}
	cost, err := measure(ctx)
	if err != nil {
		failed := host.Finding{Name: emulatedLinksName, Status: host.Limited, Detail: "the cost of a link is unknown", Remedy: err.Error()}
		return []host.Finding{f, failed}, nil
	}
	return []host.Finding{f, judgeCost(cost)}, &cost
}

const emulatedLinksName = "emulated links"

// latenessDivisor bounds a link's lateness at P99: it must be below delay/latenessDivisor.
const latenessDivisor = 10

// judgeCost reports how long a link delays a round trip, and whether its delays are exact enough.
func judgeCost(c link.Cost) host.Finding {
	f := host.Finding{Name: emulatedLinksName, Status: host.OK}
	f.Detail = fmt.Sprintf("a link without delay or loss adds %s to a round trip (%s with it; %s over a bare pair of interfaces)",
		units.Time(float64(c.FramesNS-c.DirectNS)), units.Time(float64(c.FramesNS)), units.Time(float64(c.DirectNS)))
	if c.LateP99NS == 0 {
		return f
	}
	f.Detail += fmt.Sprintf("; a delay of %v was late by %s at the median, and by %s at P99",
		link.TestDelay, units.Time(float64(c.LateP50NS)), units.Time(float64(c.LateP99NS)))
	if kept := latenessDivisor * c.LateP99NS; kept > link.TestDelay {
		f.Status = host.Limited
		f.Remedy = fmt.Sprintf("stop other programs, or ask for delays of %s or more: a trial is invalid if its P99 lateness is above 10 %% of the link's delay", units.Time(float64(kept)))
	}
	return f
}

// LinkCostCommand is the hidden command that prints link.MeasureCost as JSON.
const LinkCostCommand = "link-cost"

// PrintLinkCost measures the cost of emulated links on this machine, and prints it as JSON.
func PrintLinkCost(ctx context.Context, out io.Writer) error {
	cost, err := link.MeasureCost(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(cost)
}

func measureCostInUserNamespace(ctx context.Context) (cost link.Cost, err error) {
	program, err := plan.InUserNamespace(ctx, LinkCostCommand)
	if err != nil {
		return cost, err
	}
	var out, said bytes.Buffer
	program.Stdout, program.Stderr = &out, &said
	if err := plan.RunAttached(program); err != nil {
		return cost, fmt.Errorf("measure links in a user namespace: %w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	if err := json.Unmarshal(out.Bytes(), &cost); err != nil {
		return cost, fmt.Errorf("read what %s printed: %w", LinkCostCommand, err)
	}
	return cost, nil
}

// A Probe reports what a probe can observe on this machine, and how much the probe costs.
type Probe struct {
	Name    string      `json:"name"`
	Status  host.Status `json:"status"`
	Method  string      `json:"method,omitempty"`
	Missing []string    `json:"missing,omitempty"` // what the probe cannot observe, and why
	// Price is nil for a probe that runs inside the worker.
	Price *price.Prices `json:"price,omitempty"`
}

// examineProbes tries all probes, in about a second.
func examineProbes(ctx context.Context) []Probe {
	var all []Probe
	for _, name := range record.Probes {
		if ctx.Err() != nil {
			break
		}
		all = append(all, examineProbe(name))
	}
	return all
}

func examineProbe(name string) Probe {
	coverage, err := probes.Coverage(name)
	found := Probe{Name: name, Status: host.OK, Method: coverage.Method, Missing: coverage.Missing}
	switch {
	case err != nil:
		found.Status, found.Missing = host.Missing, []string{err.Error()}
		return found
	case len(coverage.Missing) > 0:
		found.Status = host.Limited
	}
	if !probes.RunsOutsideWorker(name) {
		return found
	}
	prices, err := price.Measure(func() (probe.Watch, error) { return probes.Start(name) })
	switch {
	case err == nil:
		found.Price = &prices
	// If the probe is unsupported, the worker observes itself.
	case !errors.Is(err, host.ErrUnsupported):
		found.Missing = append(found.Missing, "the cost of this probe: "+err.Error())
	}
	return found
}
