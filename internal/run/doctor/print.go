package doctor

import (
	"fmt"
	"io"
	"time"
)

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
