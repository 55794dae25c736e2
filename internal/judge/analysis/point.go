package analysis

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/check"
)

// point is a cell with its trials. Everything else is computed from points.
type point struct {
	cell record.Cell
	// withoutConnections is the variant without what it says of connections.
	withoutConnections string
	level              level // of the run
	limits             check.Limits

	trials []trial
}

func (p *point) add(r *record.Record) error {
	t := trial{Record: r, valid: r.Valid(), level: p.level, limits: p.limits}
	defer func() { p.trials = append(p.trials, t) }()
	if r.Failure != "" {
		return nil
	}
	t.named = make([]times, len(r.Named))
	type kind struct {
		from *latency.Distribution
		into *times
	}
	kinds := []kind{
		{&r.Service, &t.service},
		{r.Response, &t.response},
		{r.Wait, &t.wait},
		{r.Connections.Connect, &t.connect},
		{r.Connections.Handshake, &t.handshake},
		{r.Connections.FirstByte, &t.firstByte},
		{r.Messages, &t.messages},
	}
	for i := range r.Named {
		kinds = append(kinds, kind{cmp.Or(r.Named[i].Response, &r.Named[i].Service), &t.named[i]})
	}
	for _, kind := range kinds {
		var err error
		if *kind.into, err = readTimes(kind.from); err != nil {
			return err
		}
	}
	if r.Response == nil && knowsResponse(r) {
		t.response = t.service
	}
	return nil
}

// valid are the trials that may be used.
func (p *point) valid() []trial { return filter(p.trials, func(t trial) bool { return t.valid }) }

// measured are the trials that came to a measurement, believed or not.
func (p *point) measured() []trial {
	return filter(p.trials, func(t trial) bool { return t.Failure == "" && t.service.count > 0 })
}

// conditions are what must be equal for two points to be compared: all of the cell but
// the variant, and what comes with it.
func (p *point) conditions() record.Cell {
	cell := p.cell
	cell.Stack, cell.Variant, cell.Connection, cell.Target, cell.Network = "", "", "", "", record.Network{}
	cell.Load.InFlightLimit = 0 // an option of the variant
	return cell
}

// promises reports whether a point has valid trials or may get some.
func (p *point) promises() bool {
	return slices.ContainsFunc(p.trials, func(t trial) bool { return t.valid || spoiledByMachine(t.Record) })
}

// findVariant returns the first of the points with a variant; nil if there is none.
func findVariant(points []*point, variant string) *point {
	i := slices.IndexFunc(points, func(p *point) bool { return p.cell.Variant == variant })
	if i < 0 {
		return nil
	}
	return points[i]
}
