package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/run/doctor"
)

func (a *app) doctorCommand() *cobra.Command {
	return a.finds(oneObject, &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can measure, what it cannot, and why",
		Example: `  wirelab doctor
  wirelab doctor --json | jq '.findings[] | select(.status != "ok")'`,
		Args: cobra.NoArgs,
	}, func(cmd *cobra.Command, _ []string) (finding, error) {
		d := doctor.Examine(cmd.Context())
		return printed(d, func(w io.Writer) error { return printDiagnosis(w, d) }), nil
	})
}

func printDiagnosis(w io.Writer, d doctor.Diagnosis) error {
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
	fmt.Fprintf(w, "\nThe load engine itself, against a stack that answers at once:\n")
	fmt.Fprintf(w, "  closed loop   %.0f ns a request\n", d.Engine.OwnNS)
	if d.Engine.Error != "" {
		fmt.Fprintf(w, "  open loop     %s\n", d.Engine.Error)
		return nil
	}
	_, err := fmt.Fprintf(w, "  open loop     late by %v in the median and %v at P99, at %.0f requests per second; %.2g %% found no free client\n",
		time.Duration(d.Engine.LateP50NS), time.Duration(d.Engine.LateP99NS), d.Engine.RatePerSecond, 100*d.Engine.Queued)
	return err
}

func printProbes(w io.Writer, all []doctor.Probe) {
	fmt.Fprintf(w, "\nThe probes (--probe), and what each adds to a system call, and to a byte to another thread and back:\n")
	for _, p := range all {
		cost := ""
		if p.Price != nil {
			cost = fmt.Sprintf(": %+.0f ns of %.0f, %+.1f µs of %.1f", p.Price.Syscall.AddedNS(), p.Price.Syscall.BareNS,
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
