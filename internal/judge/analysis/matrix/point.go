// Package matrix turns the trials of a run into figures: records of equal cells into a
// Point, a metric over the trials of a point into a Figure with its interval, and a point
// into a Cell, which has every figure that a reader may see of it.
//
// A trial's times are read once, when it is added to its point. Everything that holds two
// points against each other is above this package, and reads them through their metrics.
//
// It must not know what a scenario asks, nor how points are compared.
package matrix

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/check"
)

// A Point is a cell with its trials. Everything else is computed from points.
type Point struct {
	Cell record.Cell
	// withoutConnections is the variant without what it says of connections.
	WithoutConnections string
	Level              Level // of the run
	Limits             check.Limits

	Trials []Trial
}

// Add reads the times of a record and adds it as a trial.
func (p *Point) Add(r *record.Record) error {
	t := Trial{Record: r, valid: r.Valid(), level: p.Level, limits: p.Limits}
	defer func() { p.Trials = append(p.Trials, t) }()
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

// Valid returns the trials that may be used.
func (p *Point) Valid() []Trial { return Filter(p.Trials, func(t Trial) bool { return t.valid }) }

// Measured returns the trials that came to a measurement, valid or not.
func (p *Point) Measured() []Trial {
	return Filter(p.Trials, func(t Trial) bool { return t.Failure == "" && t.service.count > 0 })
}

// Conditions returns what must be equal for two points to be compared: all of the cell but the
// variant, and what comes with it.
func (p *Point) Conditions() record.Cell {
	cell := p.Cell
	cell.Stack, cell.Variant, cell.Connection, cell.Target, cell.Network = "", "", "", "", record.Network{}
	cell.Load.InFlightLimit = 0 // an option of the variant
	return cell
}

// Promises reports whether a point has valid trials or may get some.
func (p *Point) Promises() bool {
	return slices.ContainsFunc(p.Trials, func(t Trial) bool { return t.valid || SpoiledByMachine(t.Record) })
}

// FindVariant returns the first of the points with a variant. It returns nil if there is none.
func FindVariant(points []*Point, variant string) *Point {
	i := slices.IndexFunc(points, func(p *Point) bool { return p.Cell.Variant == variant })
	if i < 0 {
		return nil
	}
	return points[i]
}
