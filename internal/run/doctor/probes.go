package doctor

import (
	"context"
	"errors"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	probes "wirelab.dev/internal/machine/probe/catalog"
	"wirelab.dev/internal/machine/probe/price"
)

// A Probe says what a probe sees on this machine, and what that costs.
type Probe struct {
	Name    string      `json:"name"`
	Status  host.Status `json:"status"`
	Method  string      `json:"method,omitempty"`
	Missing []string    `json:"missing,omitempty"` // each with the reason and a cure
	// Price is absent where nothing looks on from outside.
	Price *price.Prices `json:"price,omitempty"`
}

// examineProbes tries all of them, in about a second.
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
