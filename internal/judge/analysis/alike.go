package analysis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A cellPair holds one cell as measured by two runs.
type cellPair struct{ before, after *matrix.Point }

// key names the cell. It returns both names if the runs use different names.
func (b cellPair) key() string {
	before, after := keyOf(b.before), keyOf(b.after)
	if before == after {
		return after
	}
	return before + " → " + after
}

// matchCells finds the cells that two runs share, in the order of the later run. Equal cells match.
// Different programs may report different properties of a cell: their cells also match if all
// properties that both programs report are equal, and no other cell has the same values.
func matchCells(before, after *Summary) (common []cellPair, onlyBefore, onlyAfter []*matrix.Point) {
	earlier := map[record.Cell]*matrix.Point{}
	for _, p := range before.points {
		earlier[withoutTarget(p.Cell)] = p
	}
	partner := map[*matrix.Point]*matrix.Point{} // for each cell, the same cell in the other run
	pair := func(old, now *matrix.Point) { partner[old], partner[now] = now, old }
	for _, p := range after.points {
		if old := earlier[withoutTarget(p.Cell)]; old != nil {
			pair(old, p)
			delete(earlier, withoutTarget(p.Cell))
		}
	}
	single := func(p *matrix.Point) bool { return partner[p] == nil }
	later := slices.DeleteFunc(slices.Clone(after.points), func(p *matrix.Point) bool { return !single(p) })
	for _, p := range later {
		olds := slices.DeleteFunc(alikePoints(p, before.points), func(old *matrix.Point) bool { return earlier[withoutTarget(old.Cell)] != old })
		if len(olds) == 1 && len(alikePoints(olds[0], later)) == 1 {
			pair(olds[0], p)
		}
	}
	for _, p := range after.points {
		if old := partner[p]; old != nil {
			common = append(common, cellPair{old, p})
		} else {
			onlyAfter = append(onlyAfter, p)
		}
	}
	return common, slices.DeleteFunc(slices.Clone(before.points), func(p *matrix.Point) bool { return !single(p) }), onlyAfter
}

// alikePoints returns the points whose cells may be p's cell, measured by another program.
func alikePoints(p *matrix.Point, others []*matrix.Point) []*matrix.Point {
	return slices.DeleteFunc(slices.Clone(others), func(other *matrix.Point) bool { return !isAlike(p.Cell, other.Cell) })
}

// isAlike reports whether cells of different programs agree in clients and load. It cannot compare
// message sizes, because the files of other programs lack them.
func isAlike(a, b record.Cell) bool {
	if a.Tool == b.Tool {
		return false
	}
	return (a.Clients == 0 || b.Clients == 0 || a.Clients == b.Clients) && isSameLoad(a.Load, b.Load)
}

func isSameLoad(a, b record.Load) bool {
	if a.Model == record.UnknownLoad || b.Model == record.UnknownLoad {
		return true
	}
	atRate := func(l record.Load) bool { return l.Model == record.Paced || l.Model == "open" }
	return (a.Model == b.Model || atRate(a) && atRate(b)) &&
		(a.RatePerSecond == 0 || b.RatePerSecond == 0 || a.RatePerSecond == b.RatePerSecond)
}

// KeepOnly keeps the cells whose names contain a text. It returns an error if no name contains the
// text.
func (s *Summary) KeepOnly(text string) error {
	kept := slices.DeleteFunc(slices.Clone(s.points), func(p *matrix.Point) bool { return !strings.Contains(p.Cell.Key(), text) })
	if len(kept) == 0 {
		return fmt.Errorf("no cell of the run has a name with %q: use a part of a cell's name, such as %s", text, firstOrNone(keysOf(s.points)))
	}
	s.points = kept
	s.Cells = slices.DeleteFunc(slices.Clone(s.Cells), func(c matrix.Cell) bool { return !strings.Contains(c.Key, text) })
	return nil
}

func keysOf(points []*matrix.Point) []string { return lists.Map(points, keyOf) }

// keyOf returns the cell's name, with the number of agents if a fleet ran the clients.
func keyOf(p *matrix.Point) string {
	switch n := p.Cell.Agents; n {
	case 0:
		return p.Cell.Key()
	case 1:
		return p.Cell.Key() + ", clients on 1 agent of a fleet"
	default:
		return fmt.Sprintf("%s, clients on %d agents of a fleet", p.Cell.Key(), n)
	}
}

// noCommonCellError returns an error that says why two runs have no cell in common.
func noCommonCellError(before, after *Summary) error {
	for _, p := range slices.Concat(before.points, after.points) {
		others := after.points
		if slices.Contains(after.points, p) {
			others = before.points
		}
		if alike := alikePoints(p, others); len(alike) > 1 {
			return fmt.Errorf("%s %s matches several of the other run (%s): choose one of each run with --before-cell and --after-cell", p.Cell.Kind().Noun, keyOf(p), strings.Join(keysOf(alike), ", "))
		}
	}
	for _, now := range after.points {
		for _, old := range before.points {
			if keyOf(old) == keyOf(now) {
				return fmt.Errorf("the runs have no %s in common: %s differs in %s; measure both runs with the same load", now.Cell.Kind().Noun, keyOf(now), differencesOf(old.Cell, now.Cell))
			}
		}
	}
	return fmt.Errorf("the runs have no %s in common: the first one of the earlier run is %s, and of the later run %s; measure both runs with the same load",
		nounOf(after.points), firstOrNone(keysOf(before.points)), firstOrNone(keysOf(after.points)))
}

// nounOf returns the user's word for a run's cells.
func nounOf(points []*matrix.Point) string {
	if len(points) == 0 {
		return "cell"
	}
	return points[0].Cell.Kind().Noun
}

// differencesOf lists how two cells with the same name differ, as in "-n: 2000 and 3000".
func differencesOf(before, after record.Cell) string {
	var texts []string
	add := func(name string, old, now any) {
		if old != now {
			texts = append(texts, fmt.Sprintf("%s: %v and %v", name, old, now))
		}
	}
	a, b := before.Load, after.Load
	add("the load", a.Model, b.Model)
	add("-n", a.TotalRequests+a.RequestsPerClient, b.TotalRequests+b.RequestsPerClient)
	add("-z", time.Duration(a.DurationNS), time.Duration(b.DurationNS))
	add("--rps", a.RatePerSecond, b.RatePerSecond)
	add("--ramp-to", a.RampTo, b.RampTo)
	add("--stages", a.Stages, b.Stages)
	add("--burst", a.Burst, b.Burst)
	add("--goal", a.Goal, b.Goal)
	add("--arrivals", a.Arrivals, b.Arrivals)
	add("--inflight", a.InFlightLimit, b.InFlightLimit)
	add("--conn", before.Connection, after.Connection)
	add("the network", before.Network, after.Network)
	add("the payload", before.Payload, after.Payload)
	return strings.Join(texts, ", ")
}

// foreignDoubts returns reasons for not trusting a comparison of figures from different programs.
func foreignDoubts(before, after *Summary, common []cellPair) []string {
	var doubts []string
	add := func(text string) { doubts = lists.AppendNew(doubts, text) }
	for _, run := range []struct {
		*Summary
		when string
	}{{before, "earlier"}, {after, "later"}} {
		if len(run.Foreign) > 0 {
			add(fmt.Sprintf("%[2]s, not wirelab, measured the %[1]s figures", run.when, strings.Join(run.Foreign, ", ")))
		}
	}
	for _, c := range common {
		a, b := c.before.Cell, c.after.Cell
		if a.Tool != b.Tool {
			add("the programs of the two runs time calls differently")
			add("the runs may have sent messages of different sizes")
		}
		if a.Load.Model != b.Load.Model {
			add(fmt.Sprintf("the load was %s in the earlier run, and is %s in the later run", a.Load.Model, b.Load.Model))
		}
		if a.Clients != b.Clients {
			add("the runs may have had different numbers of clients")
		}
	}
	return doubts
}

// diffMetric returns the metric for a figure. If another program measured one of the runs, it returns
// service times in place of response times, because other programs report only service times.
func diffMetric(name string, foreign bool) string {
	switch {
	case foreign && name == matrix.Mean:
		return matrix.ServiceMean
	case foreign && name == matrix.P99:
		return matrix.ServiceP99
	}
	return name
}
