package main

import (
	"context"
	"errors"
	"fmt"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	probes "wirelab.dev/internal/machine/probe/catalog"
	"wirelab.dev/internal/machine/probe/price"
)

// probeFinding is what a probe sees on this machine, and what that costs.
type probeFinding struct {
	Name    string      `json:"name"`
	Status  host.Status `json:"status"`
	Method  string      `json:"method,omitempty"`
	Missing []string    `json:"missing,omitempty"` // each with the reason and a cure
	// Price is absent where nothing looks on from outside.
	Price *price.Prices `json:"price,omitempty"`
}

// examineProbes tries all of them, in about a second.
func examineProbes(ctx context.Context) []probeFinding {
	var all []probeFinding
	for _, name := range record.Probes {
		if ctx.Err() != nil {
			break
		}
		all = append(all, examineProbe(name))
	}
	return all
}

func examineProbe(name string) probeFinding {
	ability, err := probes.Ability(name)
	found := probeFinding{Name: name, Status: host.OK, Method: ability.Method, Missing: ability.Missing}
	switch {
	case err != nil:
		found.Status, found.Missing = host.Missing, []string{err.Error()}
		return found
	case len(ability.Missing) > 0:
		found.Status = host.Limited
	}
	if !probes.IsOutside(name) {
		return found
	}
	prices, err := price.Measure(func() (probe.Watch, error) { return probes.Start(name) })
	switch {
	case err == nil:
		found.Price = &prices
	case !errors.Is(err, host.ErrUnsupported): // otherwise a worker does its work
		found.Missing = append(found.Missing, "its price: "+err.Error())
	}
	return found
}

func (a *app) printProbes(all []probeFinding) {
	fmt.Fprintf(a.stdout, "\nThe probes (--probe), and what each adds to a system call, and to a byte to another thread and back:\n")
	for _, p := range all {
		cost := ""
		if p.Price != nil {
			cost = fmt.Sprintf(": %+.0f ns of %.0f, %+.1f µs of %.1f", p.Price.Syscall.AddedNS(), p.Price.Syscall.BareNS,
				p.Price.Switch.AddedNS()/1e3, p.Price.Switch.BareNS/1e3)
		}
		if p.Method != "" {
			cost = ": " + p.Method + cost
		}
		fmt.Fprintf(a.stdout, "%-8s %s%s\n", p.Status, p.Name, cost)
		for _, missing := range p.Missing {
			fmt.Fprintf(a.stdout, "%-8s   without %s\n", "", missing)
		}
	}
}
