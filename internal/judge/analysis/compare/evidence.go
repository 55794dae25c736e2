package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"wirelab.dev/internal/base/pattern"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/claim"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
	"wirelab.dev/internal/judge/check"
)

// An evidence computes the figures of a claim's expression, separately for each repeat of a run.
type evidence struct {
	study        *study.Study
	points, seen []*matrix.Point        // seen: trials with counted system calls
	fits         map[string]*matrix.Fit // fits of all trials, by figure
	look         study.ClaimLook
	repeat       int           // the current repeat; 0 stands for the figures of the tables
	unasked      string        // a yardstick variant that the run did not measure
	figures      []ClaimFigure // figures that the expression used, over all repeats
	floor        float64       // least variance of the expression's logarithm, see countVariance
	// Why the figures may say nothing about the claim, in words: the warm-up of most trials was too
	// short, or the client was the limit.
	unsettled, clientBound string
}

// evaluate returns the value of the expression in each repeat, and over the figures of the tables.
func (e *evidence) evaluate(expression *claim.Expression, part string) (values []claim.Value, fitted float64) {
	repeats := map[int]bool{}
	for _, p := range slices.Concat(e.points, e.seen) {
		for _, t := range p.Trials {
			if t.Repeat <= e.look.Repeats {
				repeats[t.Repeat] = true
			}
		}
	}
	for _, repeat := range slices.Sorted(maps.Keys(repeats)) {
		e.repeat = repeat
		values = append(values, expression.Evaluate(part, e))
	}
	e.repeat = 0
	return values, expression.Evaluate(part, e).Number
}

// fit returns the fit of a figure. Only trials with a probe count system calls.
func (e *evidence) fit(name string) *matrix.Fit {
	if e.fits[name] == nil {
		e.fits[name] = matrix.NewFit(e.pointsWith(name), name)
	}
	return e.fits[name]
}

// plainRatio matches a claim that is nothing but a ratio of two variants.
var plainRatio = pattern.Lazy(`^ratio\([^()]*\)$`)

// noiseOfRatio returns the usual noise of a claim that is a ratio within a block: that of all such ratios of
// its figure in the study, whether a claim needs them or not.
func (e *evidence) noiseOfRatio(c *Claim) noisePrior {
	if len(c.Figures) != 2 || !c.hasOnePlace() || !plainRatio().MatchString(c.Find) ||
		slices.ContainsFunc(c.Figures, func(f ClaimFigure) bool { return !f.inBlocks }) {
		return noisePrior{}
	}
	name := c.Figures[0].Figure
	var family []sample
	for a, b := range comparablePairs(matrix.ComparableGroups(e.pointsWith(name)), name) {
		if r, known := e.fit(name).Ratio(a, b); known && r.Enough && r.InBlocks {
			family = append(family, newSample(r.Estimate))
		}
	}
	return estimateNoise(family)
}

func (e *evidence) pointsWith(name string) []*matrix.Point {
	if claim.NeedsSyscalls(name) {
		return e.seen
	}
	return e.points
}

// unmetPrecondition says which precondition of the claim the measurement does not meet. It returns ""
// if the precondition is met, or has no figures.
func (e *evidence) unmetPrecondition(c *scenario.Claim) string {
	if c.Needs.Find == "" {
		return "needs " + c.Needs.Says
	}
	expression, err := claim.Parse(c.Needs.Find)
	if err != nil {
		return "" // a newer version of wirelab may have written the manifest
	}
	aside := &evidence{study: e.study, points: e.points, seen: e.seen, look: e.look, fits: e.fits}
	values, _ := aside.evaluate(expression, c.Part)
	logs := logsOfValues(values)
	if len(logs) == 0 {
		return ""
	}
	switch here := math.Exp(stats.Median(logs)); {
	case c.Needs.AtLeast > 0 && here < c.Needs.AtLeast:
		return fmt.Sprintf("needs %s: at least %s, here %s", c.Needs.Says, exactly(c.Needs.AtLeast), units.Number(here))
	case c.Needs.AtMost > 0 && here > c.Needs.AtMost:
		return fmt.Sprintf("needs %s: at most %s, here %s", c.Needs.Says, exactly(c.Needs.AtMost), units.Number(here))
	}
	return ""
}

func exactly(bound float64) string { return strconv.FormatFloat(bound, 'f', -1, 64) }

// Figure returns the figure of the cell's trial in the current repeat, if it is usable.
func (e *evidence) Figure(name string, of claim.Cell) float64 {
	p := e.findPoint(name, of)
	if p == nil || matrix.Metrics[name] == nil {
		return math.NaN()
	}
	e.keepFigure(name, p)
	if e.repeat == 0 {
		if figure := e.fit(name).Figure(p); figure != nil {
			return figure.Value
		}
		return math.NaN()
	}
	for _, t := range p.MeasuredTrials() {
		if figure := matrix.Metrics[name](t); t.Repeat == e.repeat && !math.IsNaN(figure) {
			return figure
		}
	}
	return math.NaN()
}

// WhyMissing says why the current repeat has no such figure although its trial was measured.
func (e *evidence) WhyMissing(name string, of claim.Cell) string {
	p := e.findPoint(name, of)
	if p == nil {
		return ""
	}
	return p.WhyRefused(name, e.repeat)
}

// keepFigure adds a figure to the figures that the expression used, with the variance of its count
// and the reason why it may say nothing about the claim.
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
		Value: cmp.Or(e.fit(name).Figure(p), matrix.KnownFigure(trials, matrix.Metrics[name])), Trials: len(trials),
		inBlocks: len(trials) > 0 && trials[0].Block != 0,
	})
	if len(trials) == 0 {
		return
	}
	sum := 0.0
	for _, t := range trials {
		sum += countVariance(name, t)
	}
	e.floor += sum / float64(len(trials))
	for _, limit := range []struct {
		check string
		into  *string
		of    []matrix.Trial
	}{{"settled", &e.unsettled, trials}, {"generator-bound", &e.clientBound, matrix.Filter(trials, hidesDifferences)}} {
		if why := warningOfMost(limit.of, limit.check, len(trials)); why != "" && *limit.into == "" && slices.Contains(check.SpoilsOf(limit.check), matrix.KindOf(name)) {
			*limit.into = fmt.Sprintf("%s: %s", claim.Cell{Part: c.Part, Variant: c.Variant, Bytes: c.RequestBytes, Clients: c.Clients}, why)
		}
	}
}

// hidesDifferences reports whether a client at its limit could hide a difference of more than the margin
// of claims. A server without more idle time than that is at its own limit.
func hidesDifferences(t matrix.Trial) bool {
	return t.Server.Busy == nil || 1-*t.Server.Busy > claimRule.Margin
}

// warningOfMost returns the result of a check, in words, if at least half of all trials fail it. A
// warning does not count if its figure is within the check's limit, or within the margin of claims.
func warningOfMost(trials []matrix.Trial, check string, all int) (why string) {
	failed := 0
	for _, t := range trials {
		i := slices.IndexFunc(t.Checks, func(c record.Check) bool {
			return c.Name == check && c.Level.Severity() >= record.Warning.Severity() && (c.Figure == nil || *c.Figure >= max(*c.Limit, claimRule.Margin))
		})
		if i >= 0 {
			failed, why = failed+1, t.Checks[i].Detail
		}
	}
	if 2*failed < all {
		return ""
	}
	return why
}

// countVariance returns the least variance of a figure's logarithm because the figure counts
// requests. A window cuts the calls in flight at both of its edges. If they run in step, all cuts
// fall at the same share of a call, so that the count is off by up to the calls in flight: its
// variance is a sixth of their square. Turns of a block cut calls anew each time, so blocks show
// this scatter themselves. The share of answered requests has the variance of the failed ones.
func countVariance(name string, t matrix.Trial) float64 {
	switch {
	case name == "answered" && t.Requests > 0:
		return float64(t.Failed()+1) / float64(t.Requests*t.Requests)
	case t.Completed == 0 || t.Block != 0 || !countsRequests(name):
		return 0
	}
	cut := max(1, t.InFlight) / float64(t.Completed)
	return cut * cut / 6
}

// countsRequests reports whether a figure is an amount per second or per request of the window.
func countsRequests(name string) bool {
	return slices.Contains([]string{"throughput", "cpu", "client-cpu", "server-cpu", "client-switches", "server-switches", "client-faults", "server-faults", "client-futex", "server-futex"}, name)
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

// findPoint returns the point of a figure.
func (e *evidence) findPoint(name string, cell claim.Cell) *matrix.Point {
	for _, p := range e.pointsOf(e.pointsWith(name), cell) {
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
