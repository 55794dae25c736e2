package compare

import (
	"maps"
	"math"
	"slices"

	"wirelab.dev/internal/data/claim"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
)

// An evidence computes the figures of a claim's expression, separately for each repeat of a run.
type evidence struct {
	study        *study.Study
	points, seen []*matrix.Point // seen: trials with counted system calls
	look         study.ClaimLook
	repeat       int
	unasked      string        // a yardstick variant that the run did not measure
	refused      string        // why checks refuse a figure of the expression in all repeats; empty if none does
	figures      []ClaimFigure // figures that the expression used, over all repeats
}

func (e *evidence) evaluate(expression *claim.Expression, part, variant string) []claim.Value {
	repeats := map[int]bool{}
	for _, p := range slices.Concat(e.points, e.seen) {
		for _, t := range p.Trials {
			if t.Repeat <= e.look.Repeats {
				repeats[t.Repeat] = true
			}
		}
	}
	var values []claim.Value
	for _, repeat := range slices.Sorted(maps.Keys(repeats)) {
		e.repeat = repeat
		values = append(values, expression.Evaluate(part, variant, e))
	}
	return values
}

// Figure returns the figure of the cell's trial in the current repeat, if that trial has it.
func (e *evidence) Figure(name string, of claim.Cell) float64 {
	from := e.points
	if claim.NeedsSyscalls(name) {
		from = e.seen
	}
	p := e.findPoint(from, of)
	if p == nil || matrix.Metrics[name] == nil {
		return math.NaN()
	}
	e.keepFigure(name, p)
	for _, t := range p.MeasuredTrials() {
		if figure := matrix.Metrics[name](t); t.Repeat == e.repeat && !math.IsNaN(figure) {
			return figure
		}
	}
	if why := p.WhyMissing(name); e.refused == "" && why != "not measured" {
		e.refused = name + ": " + why
	}
	return math.NaN()
}

func (e *evidence) keepFigure(name string, p *matrix.Point) {
	c := p.Cell
	if slices.ContainsFunc(e.figures, func(f ClaimFigure) bool {
		return f.Figure == name && f.Part == c.Part && f.Variant == c.Variant && f.RequestBytes == c.RequestBytes && f.Clients == c.Clients
	}) {
		return
	}
	trials := matrix.Filter(p.MeasuredTrials(), func(t matrix.Trial) bool { return t.Repeat <= e.look.Repeats })
	e.figures = append(e.figures, ClaimFigure{
		Figure: name, Part: c.Part, Variant: c.Variant, Payload: c.Payload, Clients: c.Clients,
		Value: matrix.KnownFigure(trials, matrix.Metrics[name]),
	})
}

// pointsOf returns the points of a part and a variant, sorted by clients and then by size.
func (e *evidence) pointsOf(points []*matrix.Point, cell claim.Cell) []*matrix.Point {
	var names []string
	var inPart []*matrix.Point
	for _, p := range points {
		if p.Cell.Part == cell.Part {
			inPart, names = append(inPart, p), append(names, p.Cell.Variant)
		}
	}
	i := scenario.FindVariant(names, cell.Variant)
	if i < 0 {
		if scenario.FindVariant(e.study.LeftOut, cell.Variant) >= 0 {
			e.unasked = cell.Variant
		}
		return nil
	}
	variant := names[i]
	inPart = slices.DeleteFunc(inPart, func(p *matrix.Point) bool { return p.Cell.Variant != variant })
	slices.SortStableFunc(inPart, func(a, b *matrix.Point) int {
		return slices.Compare([]int{a.Cell.Clients, a.Cell.RequestBytes}, []int{b.Cell.Clients, b.Cell.RequestBytes})
	})
	return inPart
}

func (e *evidence) findPoint(points []*matrix.Point, cell claim.Cell) *matrix.Point {
	for _, p := range e.pointsOf(points, cell) {
		if (cell.Bytes == claim.Least || p.Cell.RequestBytes == cell.Bytes) && (cell.Clients == claim.Least || p.Cell.Clients == cell.Clients) {
			return p
		}
	}
	return nil
}

// Sizes returns the sizes that were measured with the cell's clients.
func (e *evidence) Sizes(of claim.Cell) []int {
	return e.valuesAlong(of, func(p *matrix.Point) (along, other int) { return p.Cell.RequestBytes, p.Cell.Clients }, of.Clients)
}

// Clients returns the numbers of clients that were measured with the cell's size.
func (e *evidence) Clients(of claim.Cell) []int {
	return e.valuesAlong(of, func(p *matrix.Point) (along, other int) { return p.Cell.Clients, p.Cell.RequestBytes }, of.Bytes)
}

func (e *evidence) valuesAlong(of claim.Cell, axes func(*matrix.Point) (along, other int), wanted int) []int {
	points := e.pointsOf(e.points, of)
	if wanted == claim.Least && len(points) > 0 {
		_, wanted = axes(points[0])
	}
	var all []int
	for _, p := range points {
		if along, other := axes(p); other == wanted {
			all = append(all, along)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
