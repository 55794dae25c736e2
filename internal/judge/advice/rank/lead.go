package rank

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Grade says how sure a statement about several points is.
type Grade string

// The grades. In at most 5 % of runs, equal variants get another grade than open.
const (
	Certain Grade = "certain" // the corrected tests prove the statement at each of its points
	Likely  Grade = "likely"  // the points prove the statement together, but not each by itself
	Open    Grade = "open"    // nothing is proven
)

// A Lead says which variant has the lowest figure at a group of points, with the evidence.
type Lead struct {
	Grade     Grade            `json:"grade" jsonschema:"enum=certain,enum=likely,enum=open"`
	Part      string           `json:"part"`
	Metric    string           `json:"metric" jsonschema:"enum=mean,enum=p99,enum=cpu"` // the compared figure
	Sizes     []record.Payload `json:"sizes"`                                           // message sizes of the points
	Clients   []int            `json:"clients"`                                         // numbers of clients of the points
	Variants  []string         `json:"variants"`                                        // the leading variant, or several that are equal within the margin; if open, the variant with the lowest figure at most points
	All       bool             `json:"all"`                                             // every compared variant leads, so all are equal within the margin
	Points    int              `json:"points"`                                          // number of points
	Lowest    int              `json:"lowest"`                                          // points at which the leading variant has the lowest figure
	Proven    int              `json:"proven"`                                          // points at which the leading variant is proven better than every other
	Equal     int              `json:"equal"`                                           // points at which the leading variant is proven equal to the best within the margin
	Margin    float64          `json:"margin"`                                          // relative difference within which the equal variants are equal; 0 if none are
	Judged    int              `json:"judged"`                                          // points with enough trials for an interval
	Least     float64          `json:"least" jsonschema:"nullable"`                     // the next variant's figure divided by the leading variant's, at least; null if the leading variant is nowhere lowest
	Most      float64          `json:"most" jsonschema:"nullable"`                      // the same, at most
	P         float64          `json:"p" jsonschema:"nullable"`                         // probability of evidence this clear over all unproven points together if a rival is equal; null without unproven points
	Except    []Point          `json:"except"`                                          // points of the group at which another variant has the lowest figure; a likely lead does not cover them
	Unproven  []Point          `json:"unproven"`                                        // points at which the leading variant is neither proven best nor equal to the best
	Missing   []string         `json:"missing"`                                         // variants without a valid trial at a point, which no lead is about
	Winners   []Winner         `json:"winners"`                                         // variants that are proven best, with their points
	Standings []Standing       `json:"standings"`                                       // the other variants, the closest first
}

// A Winner is a variant that is proven best, or proven equal to the best, at some points.
type Winner struct {
	Variant string  `json:"variant"`
	Points  []Point `json:"points"`
}

// A Standing compares a variant with the leading variant over the points of a lead.
type Standing struct {
	Variant string        `json:"variant"`
	Ratio   matrix.Figure `json:"ratio"` // geometric mean of the variant's figure divided by the leading variant's; without an interval if no point has one
	Least   float64       `json:"least"` // smallest such ratio at a point
	Most    float64       `json:"most"`  // largest such ratio at a point
}

const (
	// pooledLevel is the probability of calling a lead of equal variants likely.
	pooledLevel = 0.05
	// leastSupport is the share of points at which a likely leader has the lowest figure or an equal one.
	leastSupport = 0.75
	// signWeight is the weight of a point without an interval. Only the sign of such a point counts. The
	// weight is below 1 so that six such points are needed, as in an exact sign test.
	signWeight = 0.8
	// maxDeviate limits the weight of a single point, because intervals over few trials have long tails.
	maxDeviate = 3
)

// MainLeads returns the leads of a run's main part by the mean time. It returns nil if the run
// compares no variants, or searched for rates.
func MainLeads(s *analysis.Summary) []Lead {
	parts := PartsOf(s)
	if len(parts) == 0 || s.IsSweep() || s.Report.Cases || len(s.Foreign) > 0 || MainPart(parts).IsSearched() {
		return nil
	}
	return MainPart(parts).Leads(matrix.Mean)
}

// Leads grades the best variant over all points. If the grade is open, it divides the points by
// clients or by size, and groups those with the same result. Half of pooledLevel is for all
// points together, half for all groups.
func (p *Part) Leads(metric string) []Lead {
	points := p.RankingsWithRivals(metric, p.Sizes, p.Clients)
	if len(points) == 0 {
		return nil
	}
	var axes [][][]Ranking
	for _, by := range []func(Ranking) string{
		func(r Ranking) string { return fmt.Sprint(r.At.Clients) },
		func(r Ranking) string { return fmt.Sprint(r.At.Size) },
	} {
		if groups := lists.GroupBy(points, by); len(groups) > 1 {
			axes = append(axes, groups)
		}
	}
	level := pooledLevel
	if len(axes) > 0 {
		level /= 2
	}
	best, covered := []Lead{p.lead(metric, points, level)}, 0
	if best[0].Grade != Open {
		return best
	}
	for _, groups := range axes {
		leads := p.mergedLeads(metric, groups, level/float64(len(axes)*len(groups)))
		n := 0
		for _, l := range leads {
			if l.Grade != Open {
				n += l.Points
			}
		}
		if n > covered {
			best, covered = leads, n
		}
	}
	return best
}

// UncomparedPoints returns the points of several variants at which fewer than two have the figure.
func (p *Part) UncomparedPoints(metric string) []Point {
	cells := map[Point]int{}
	for _, c := range p.Cells {
		cells[Point{c.Payload, c.Clients}]++
	}
	var all []Point
	for _, size := range p.Sizes {
		for _, n := range p.Clients {
			at := Point{size, n}
			if r, ok := p.Rank(metric, at); cells[at] > 1 && (!ok || len(r.Rivals) == 0) {
				all = append(all, at)
			}
		}
	}
	return all
}

// mergedLeads returns one lead per result.
func (p *Part) mergedLeads(metric string, groups [][]Ranking, level float64) []Lead {
	key := func(group []Ranking) string {
		l := p.lead(metric, group, level)
		if l.Grade == Open {
			return string(Open)
		}
		return fmt.Sprint(l.Grade, l.Variants)
	}
	return lists.Map(lists.GroupBy(groups, key), func(same [][]Ranking) Lead {
		first := p.lead(metric, same[0], level)
		all := p.evidence(metric, slices.Concat(same...), first.Variants)
		all.Grade = first.Grade
		for _, group := range same {
			if one := p.lead(metric, group, level); !(all.P >= one.P) {
				all.P = one.P
			}
		}
		if all.Grade == Open {
			all = p.lead(metric, slices.Concat(same...), 0)
		}
		return all
	})
}

// lead grades the best variant of a group. The level is the probability of a false likely lead.
func (p *Part) lead(metric string, points []Ranking, level float64) Lead {
	if all := bestAtAll(points); len(all) > 0 {
		l := p.evidence(metric, points, all)
		l.Grade, l.P = Certain, math.NaN()
		return l
	}
	l := p.evidence(metric, points, []string{usuallyBest(points)})
	if p.isNowhereBeaten(l.Variants[0], metric, points) && float64(l.Lowest+l.Equal) >= leastSupport*float64(l.Points) && l.P < level {
		l.Grade = Likely
	}
	return l
}

// top returns the variants that are proven best at a point, or proven equal to the best.
func (r Ranking) top() []string {
	if r.TooFew || len(r.Unsure) > 0 {
		return nil
	}
	return append([]string{r.Best}, r.Equal...)
}

// isLowest reports whether the variant has the lowest figure at a point by all comparisons.
func (r Ranking) isLowest(variant string) bool {
	return r.Best == variant && r.Rivals[0].Times.Value >= 1
}

// bestAtAll returns the variants that are proven best or equal to the best at every point.
func bestAtAll(points []Ranking) []string {
	all := points[0].top()
	for _, r := range points[1:] {
		all = slices.DeleteFunc(all, func(v string) bool { return !slices.Contains(r.top(), v) })
	}
	return all
}

// usuallyBest returns the variant with the lowest figure, or an equal one, at most points.
func usuallyBest(points []Ranking) string {
	var names []string
	lowest, proven := map[string]int{}, map[string]int{}
	for _, r := range points {
		for _, v := range append([]string{r.Best}, r.top()...) {
			names = lists.AppendNew(names, v)
		}
		lowest[r.Best]++
		for _, v := range r.top() {
			proven[v]++
		}
	}
	return slices.MaxFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(lowest[a], lowest[b]), cmp.Compare(proven[a], proven[b]))
	})
}

func (p *Part) isNowhereBeaten(variant, metric string, points []Ranking) bool {
	return !slices.ContainsFunc(points, func(r Ranking) bool { return p.isBeaten(variant, metric, r.At) })
}

// evidence counts what the points say about the leading variants. Its grade is open.
func (p *Part) evidence(metric string, points []Ranking, leading []string) Lead {
	l := Lead{Grade: Open, Part: p.Name, Metric: metric, Variants: leading, Points: len(points), Least: math.NaN(), Most: math.NaN(), Except: []Point{}, Unproven: []Point{}, Missing: []string{}, Winners: []Winner{}, Standings: []Standing{}}
	for _, r := range points {
		l.Sizes, l.Clients = lists.AppendNew(l.Sizes, r.At.Size), lists.AppendNew(l.Clients, r.At.Clients)
		if !r.TooFew {
			l.Judged++
		}
		for _, c := range p.Cells {
			if !c.IsValid() && c.Payload == r.At.Size && c.Clients == r.At.Clients {
				l.Missing = lists.AppendNew(l.Missing, c.Variant)
			}
		}
		for _, v := range r.top() {
			w := lists.FindOrAdd(&l.Winners, Winner{Variant: v}, func(known Winner) bool { return known.Variant == v })
			w.Points = append(w.Points, r.At)
		}
		isTop := slices.Contains(r.top(), leading[0])
		switch {
		case isTop && r.IsSure():
			l.Proven++
		case isTop:
			l.Equal++
			for _, rival := range r.Rivals {
				if rival.IsEqual {
					l.Margin = max(l.Margin, rival.Margin)
				}
			}
		default:
			l.Unproven = append(l.Unproven, r.At)
		}
		switch {
		case r.isLowest(leading[0]):
			if !isTop || r.IsSure() {
				l.Lowest++
			}
			next := slices.IndexFunc(r.Rivals, func(other Rival) bool { return !slices.Contains(leading, other.Variant) })
			if next >= 0 && !slices.Contains(r.Equal, r.Rivals[next].Variant) {
				times := r.Rivals[next].Times.Value
				if l.Most = max(times, orZero(l.Most)); !(l.Least <= times) {
					l.Least = times
				}
			}
		case !isTop:
			l.Except = append(l.Except, r.At)
		}
	}
	slices.SortFunc(l.Sizes, record.Payload.Compare)
	slices.Sort(l.Clients)
	slices.SortStableFunc(l.Winners, func(a, b Winner) int { return cmp.Compare(len(b.Points), len(a.Points)) })
	for _, other := range p.Variants {
		if s, compared := p.standing(metric, points, [2]string{leading[0], other}); compared {
			l.Standings = append(l.Standings, s)
		}
	}
	l.All = len(leading) == len(l.Standings)+1
	slices.SortStableFunc(l.Standings, func(a, b Standing) int { return cmp.Compare(a.Ratio.Value, b.Ratio.Value) })
	l.P = p.pooledP(metric, points, leading[0])
	return l
}

func orZero(value float64) float64 {
	if math.IsNaN(value) {
		return 0
	}
	return value
}

// pooledP returns the largest two-sided P over all rivals. For each rival it adds the deviates of the
// points at which the comparison is not decided by itself, as Stouffer does. It returns NaN without
// such a point. The points are independent, because each has its own trials.
func (p *Part) pooledP(metric string, points []Ranking, leading string) float64 {
	largest := math.NaN()
	for _, other := range p.Variants {
		sum, n := 0.0, 0
		for _, r := range points {
			if rival, compared := p.Against(leading, other, metric, r.At); compared && rival.isUnsure() {
				sum, n = sum+rival.deviate(), n+1
			}
		}
		if n == 0 {
			continue
		}
		probability := 1.0 // the evidence is for the rival
		if sum > 0 {
			probability = math.Erfc(sum / math.Sqrt(2*float64(n)))
		}
		largest = max(probability, orZero(largest))
	}
	return largest
}

// deviate returns how many standard errors the ratio lies above 1, by the side of its interval that
// is nearer to 1. Without an interval, only the sign counts.
func (r Rival) deviate() float64 {
	log, i := math.Log(r.Times.Value), r.Times.Interval
	switch {
	case log == 0:
		return 0
	case i == nil:
		return math.Copysign(signWeight, log)
	}
	limit := i.Low
	if log < 0 {
		limit = i.High
	}
	half := max(math.Abs(log-math.Log(limit)), 1e-9)
	z := math.Abs(log) / half * math.Sqrt2 * math.Erfinv(i.Confidence)
	return math.Copysign(min(z, maxDeviate), log)
}

// standing compares the second of two variants with the first.
func (p *Part) standing(metric string, points []Ranking, pair [2]string) (s Standing, compared bool) {
	s = Standing{Variant: pair[1], Least: math.Inf(1)}
	var all, sure, variance float64 // sums of logarithms: of all points, and of points with an interval
	judged, n := 0, 0
	var confidence float64
	for _, r := range points {
		rival, has := p.Against(pair[0], pair[1], metric, r.At)
		if !has {
			continue
		}
		log := math.Log(rival.Times.Value)
		s.Least, s.Most = min(s.Least, rival.Times.Value), max(s.Most, rival.Times.Value)
		n, all = n+1, all+log
		if i := rival.Times.Interval; i != nil {
			half := math.Log(i.High/i.Low) / 2
			judged, sure, variance, confidence = judged+1, sure+log, variance+half*half, i.Confidence
		}
	}
	switch {
	case n == 0:
		return s, false
	case judged == 0:
		s.Ratio.Value = math.Exp(all / float64(n))
		return s, true
	}
	mean, half := sure/float64(judged), math.Sqrt(variance)/float64(judged)
	s.Ratio = matrix.Figure{Value: math.Exp(mean), Interval: &matrix.Interval{Low: math.Exp(mean - half), High: math.Exp(mean + half), Confidence: confidence}}
	return s, true
}
