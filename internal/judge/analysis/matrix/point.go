// Package matrix turns the trials of a run into figures: records of equal cells become a Point, a
// metric over a point's trials becomes a Figure with its interval, and a point becomes a Cell,
// which has every figure that a reader may see.
//
// A trial's times are read once, when it is added to its point. Packages above compare points, and
// read them through metrics.
//
// It does not know what a scenario asks, or how points are compared.
package matrix

import (
	"cmp"
	"math"
	"slices"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
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

// Measured returns the trials with a measurement, valid or not.
func (p *Point) Measured() []Trial {
	return Filter(p.Trials, func(t Trial) bool { return t.Failure == "" && t.service.count > 0 })
}

// Conditions returns the cell without its variant: points can be compared if these are equal.
func (p *Point) Conditions() record.Cell {
	cell := p.Cell
	cell.Stack, cell.Variant, cell.Connection, cell.Target, cell.Network = "", "", "", "", record.Network{}
	cell.Load.InFlightLimit = 0 // an option of the variant
	return cell
}

// Promises reports whether a point has valid trials or may still get some.
func (p *Point) Promises() bool {
	return slices.ContainsFunc(p.Trials, func(t Trial) bool { return t.valid || SpoiledByMachine(t.Record) })
}

// FindVariant returns the first point with a variant, or nil.
func FindVariant(points []*Point, variant string) *Point {
	i := slices.IndexFunc(points, func(p *Point) bool { return p.Cell.Variant == variant })
	if i < 0 {
		return nil
	}
	return points[i]
}

// A Trial is a record with its times read.
type Trial struct {
	*record.Record
	valid    bool
	level    Level // level of the run
	limits   check.Limits
	service  times
	response times // equal to the service times if the record has only those
	wait     times
	// Waiting times of the connections of the window.
	connect, handshake, firstByte times
	messages                      times
	named                         []times // in the record's order
}

// ifOwnClient returns a figure that only wirelab's own client measures, or NaN.
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

// knowsResponse reports whether a record has times from when calls were due. Other programs time
// calls from their actual send, which is the same only without a rate.
func knowsResponse(r *record.Record) bool {
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

func hasAll(trials []Trial, has func(Trial) bool) bool {
	return !slices.ContainsFunc(trials, func(t Trial) bool { return !has(t) })
}

// SpoiledByMachine reports whether only other programs on the machine spoiled a trial.
func SpoiledByMachine(r *record.Record) bool {
	_, spoiled := check.SpoiledByMachine(r.Checks)
	return spoiled && r.Probe == ""
}

// Pairs returns a metric of A and B for the repeats in which both have a valid trial.
func Pairs(a, b *Point, of Metric) (ofA, ofB []float64) {
	byRepeat := map[int]Trial{}
	for _, t := range b.Valid() {
		byRepeat[t.Repeat] = t
	}
	for _, t := range a.Valid() {
		if other, both := byRepeat[t.Repeat]; both {
			ofA, ofB = append(ofA, of(t)), append(ofB, of(other))
		}
	}
	return ofA, ofB
}

// Ratio returns a metric of A divided by that of B, with an interval if there are enough pairs.
func Ratio(a, b *Point, of Metric) Figure {
	ofA, ofB := Pairs(a, b, of)
	if len(ofA) == 0 {
		ofA, ofB = Values(a.Valid(), of), Values(b.Valid(), of)
	}
	interval, err := stats.RatioInterval(ofA, ofB, a.Level.Confidence())
	if err != nil {
		return Figure{Value: stats.Median(ofA) / stats.Median(ofB)}
	}
	return FigureOf(Stated(interval))
}

// Rivals returns the valid points in groups that can be compared.
func Rivals(points []*Point) [][]*Point {
	groups := lists.GroupBy(points, (*Point).Conditions)
	for i, group := range groups {
		groups[i] = slices.DeleteFunc(group, func(p *Point) bool { return len(p.Valid()) == 0 })
	}
	return slices.DeleteFunc(groups, func(group []*Point) bool { return len(group) == 0 })
}

// ByClients groups points that differ only in their number of clients, in ascending order.
func ByClients(points []*Point) [][]*Point {
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
