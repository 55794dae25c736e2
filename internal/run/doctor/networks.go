package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/link"
	"wirelab.dev/internal/run/plan"
)

// findNetworks says whether trials can have networks of their own, and what links in them
// cost here; nil where there are none.
func findNetworks(ctx context.Context) ([]host.Finding, *link.Cost) {
	f := host.Finding{Name: "networks of a trial's own", Status: host.OK, Detail: "can be made, with links that delay, lose and reorder (--link)"}
	measure := link.MeasureCost
	if link.Check() != nil {
		if why := plan.WhyNoUserNamespace(ctx); why != "" {
			f.Status, f.Detail, f.Remedy = host.Missing, "`network` and --link fail", why
			return []host.Finding{f}, nil
		}
		f.Detail += ", in a user namespace, where wirelab runs itself again when they are asked for"
		measure = measureCostInUserNamespace
	}
	cost, err := measure(ctx)
	if err != nil {
		failed := host.Finding{Name: emulatedLinks, Status: host.Limited, Detail: "what they cost is not known", Remedy: err.Error()}
		return []host.Finding{f, failed}, nil
	}
	return []host.Finding{f, judgeCost(cost)}, &cost
}

const emulatedLinks = "emulated links"

// mostLate divides the delay of a link: a trial is valid if P99 is late by less than the result.
const mostLate = 10

// judgeCost says what emulation adds to a round trip, and which delays are kept.
func judgeCost(c link.Cost) host.Finding {
	f := host.Finding{Name: emulatedLinks, Status: host.OK}
	f.Detail = fmt.Sprintf("a link that does nothing adds %s to a round trip (%s, over a bare pair of interfaces %s)",
		units.Time(float64(c.FramesNS-c.DirectNS)), units.Time(float64(c.FramesNS)), units.Time(float64(c.DirectNS)))
	if c.LateP99NS == 0 {
		return f
	}
	f.Detail += fmt.Sprintf("; a delay of %v was late by %s in the median and %s at P99",
		link.CostDelay, units.Time(float64(c.LateP50NS)), units.Time(float64(c.LateP99NS)))
	if kept := mostLate * c.LateP99NS; kept > link.CostDelay {
		f.Status = host.Limited
		f.Remedy = fmt.Sprintf("stop other work, or ask for delays of %s or more: a trial is invalid where P99 is late by more than a tenth", units.Time(float64(kept)))
	}
	return f
}

// LinkCostCommand is the hidden command that prints link.MeasureCost as JSON.
const LinkCostCommand = "link-cost"

// PrintLinkCost measures what emulated links cost here, and prints it as JSON.
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
	if err := plan.RunToEnd(program); err != nil {
		return cost, fmt.Errorf("measure links in a user namespace: %w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	if err := json.Unmarshal(out.Bytes(), &cost); err != nil {
		return cost, fmt.Errorf("read what %s printed: %w", LinkCostCommand, err)
	}
	return cost, nil
}
