// Package matrix turns the trials of a run into figures. A Point holds the trials of one cell. A
// Metric returns a figure of one trial, and a Figure holds it over all trials, with an interval. A Fit
// estimates the metrics whose ratios are printed. A Cell holds all figures of a point that a reader may see.
//
// It does not know what a scenario asks, or how points are compared.
package matrix

import (
	"cmp"
	"math"
	"slices"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/check"
)

// A Point is a cell with its trials. All results are computed from points.
type Point struct {
	Cell record.Cell
	// WithoutConnections is the variant's name without its connection options.
	WithoutConnections string
	Level              Level // level of the run
	Limits             check.Limits

	Trials []Trial
}

// AddTrial reads the times of a record and adds it as a trial.
func (p *Point) AddTrial(r *record.Record) error {
	t := Trial{Record: r, level: p.Level, limits: p.Limits, throughput: r.ThroughputPerSecond()}
	defer func() { p.Trials = append(p.Trials, t) }()
	if r.Failure != "" {
		return nil
	}
	t.named, t.placed = make([]times, len(r.Named)), make([]times, len(r.ByAddress))
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
	for i := range r.ByAddress {
		kinds = append(kinds, kind{cmp.Or(r.ByAddress[i].Response, &r.ByAddress[i].Service), &t.placed[i]})
	}
	for _, kind := range kinds {
		var err error
		if *kind.into, err = readTimes(kind.from); err != nil {
			return err
		}
	}
	if r.Response == nil && hasResponseTimes(r) {
		t.response = t.service
	}
	return nil
}

// TrialsWith returns the trials that have figures of a kind.
func (p *Point) TrialsWith(kind record.FigureKind) []Trial {
	return Filter(p.Trials, func(t Trial) bool { return t.has(kind) })
}

// MeasuredTrials returns the trials with a measurement. Checks may spoil some of its figures, for
// which a Metric returns NaN.
func (p *Point) MeasuredTrials() []Trial {
	return Filter(p.Trials, func(t Trial) bool { return t.Failure == "" && t.service.count > 0 })
}

// Conditions returns the cell without its variant. Points with equal conditions can be compared.
func (p *Point) Conditions() record.Cell {
	cell := p.Cell
	cell.Stack, cell.Variant, cell.Connection, cell.Target, cell.Network = "", "", "", "", record.Network{}
	cell.Load.InFlightLimit, cell.Unpinned = 0, false // these are options of the variant
	return cell
}

// MayHaveTrials reports whether a point has a trial with times, or may have one after more repeats:
// without the other programs, or with the longer warm-up that a trial learnt.
func (p *Point) MayHaveTrials() bool {
	return slices.ContainsFunc(p.Trials, func(t Trial) bool {
		spoiled := slices.ContainsFunc(t.Checks, func(c record.Check) bool { return c.Level == record.Invalid && c.Name != "settled" })
		return t.Failure == "" && !spoiled || SpoiledByMachine(t.Record)
	})
}

// FindVariant returns the first point with a variant, or nil.
func FindVariant(points []*Point, variant string) *Point {
	i := slices.IndexFunc(points, func(p *Point) bool { return p.Cell.Variant == variant })
	if i < 0 {
		return nil
	}
	return points[i]
}

// A Trial is a record with its decoded times.
type Trial struct {
	*record.Record
	level    Level // level of the run
	refused  bool  // its figures are only shown: they have no intervals
	limits   check.Limits
	service  times
	response times // response times; equal to the service times if the record has no response times
	wait     times
	// How long opening a connection, its handshake and its first byte took in the window.
	connect, handshake, firstByte times
	messages                      times
	throughput                    float64 // successful answers per second
	named, placed                 []times // times of calls by name, and by address, in the record's order
}

// ifOwnClient returns the value, or NaN if another program's client measured.
func (t Trial) ifOwnClient(value float64) float64 {
	if t.ClientProgram != "" {
		return math.NaN()
	}
	return value
}

// Number returns a record's number, or NaN if it was not measured.
func Number[N int64 | float64](p *N) float64 {
	if p == nil {
		return math.NaN()
	}
	return float64(*p)
}

// hasResponseTimes reports whether a record has response times, which start when a call is due.
// Other programs time calls from their actual send. Both starts are the same only in a closed loop.
func hasResponseTimes(r *record.Record) bool {
	return r.Foreign == nil || r.Response != nil || r.Cell.Load.Model == "closed"
}

// Filter returns the trials for which keep returns true.
func Filter(trials []Trial, keep func(Trial) bool) []Trial {
	var kept []Trial
	for _, t := range trials {
		if keep(t) {
			kept = append(kept, t)
		}
	}
	return kept
}

func everyTrial(trials []Trial, has func(Trial) bool) bool {
	return !slices.ContainsFunc(trials, func(t Trial) bool { return !has(t) })
}

// SpoiledByMachine reports whether only other programs on the machine spoiled a trial.
func SpoiledByMachine(r *record.Record) bool {
	_, spoiled := check.SpoiledByMachine(r.Checks)
	return spoiled && r.Probe == ""
}

// ComparableGroups groups the measured points by their conditions.
func ComparableGroups(points []*Point) [][]*Point {
	groups := lists.GroupBy(points, (*Point).Conditions)
	for i, group := range groups {
		groups[i] = slices.DeleteFunc(group, func(p *Point) bool { return len(p.MeasuredTrials()) == 0 })
	}
	return slices.DeleteFunc(groups, func(group []*Point) bool { return len(group) == 0 })
}

// GroupByClients groups points that differ only in their number of clients, in ascending order.
func GroupByClients(points []*Point) [][]*Point {
	curves := lists.GroupBy(points, func(p *Point) record.Cell {
		cell := p.Cell
		cell.Clients = 0
		return cell
	})
	for _, curve := range curves {
		slices.SortFunc(curve, func(a, b *Point) int { return cmp.Compare(a.Cell.Clients, b.Cell.Clients) })
	}
	return curves
}
