package analysis

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A cellPair holds one cell as measured by two runs.
type cellPair struct{ before, after *matrix.Point }

// key names the cell. It returns both names if the runs name it differently.
func (b cellPair) key() string {
	before, after := keyOf(b.before), keyOf(b.after)
	if before == after {
		return after
	}
	return before + " → " + after
}

// match finds the cells that two runs share, in the order of the later run. Equal cells match.
// Where different programs measured them, cells match if they agree in everything that both
// programs report, and if no other cell matches as well.
func match(before, after *Summary) (common []cellPair, onlyBefore, onlyAfter []*matrix.Point) {
	earlier := map[record.Cell]*matrix.Point{}
	for _, p := range before.points {
		earlier[anywhere(p.Cell)] = p
	}
	partner := map[*matrix.Point]*matrix.Point{} // of points of both runs
	pair := func(old, now *matrix.Point) { partner[old], partner[now] = now, old }
	for _, p := range after.points {
		if old := earlier[anywhere(p.Cell)]; old != nil {
			pair(old, p)
			delete(earlier, anywhere(p.Cell))
		}
	}
	single := func(p *matrix.Point) bool { return partner[p] == nil }
	later := slices.DeleteFunc(slices.Clone(after.points), func(p *matrix.Point) bool { return !single(p) })
	for _, p := range later {
		olds := slices.DeleteFunc(alike(p, before.points), func(old *matrix.Point) bool { return earlier[anywhere(old.Cell)] != old })
		if len(olds) == 1 && len(alike(olds[0], later)) == 1 {
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

// alike returns the points whose cells are alike to p's cell.
func alike(p *matrix.Point, others []*matrix.Point) []*matrix.Point {
	return slices.DeleteFunc(slices.Clone(others), func(other *matrix.Point) bool { return !isAlike(p.Cell, other.Cell) })
}

// isAlike reports whether cells of different programs agree in clients and load. Their names
// differ, and no file states the size of the messages.
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

// Only keeps the cells whose names contain a text. It fails if there is none.
func (s *Summary) Only(text string) error {
	kept := slices.DeleteFunc(slices.Clone(s.points), func(p *matrix.Point) bool { return !strings.Contains(p.Cell.Key(), text) })
	if len(kept) == 0 {
		return fmt.Errorf("no cell's name contains %q: the first is %s", text, firstOf(keysOf(s.points)))
	}
	s.points = kept
	return nil
}

func keysOf(points []*matrix.Point) []string { return lists.Map(points, keyOf) }

// keyOf names a cell and its number of agents, for comparing it with a cell of another run.
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

// whyNone explains why two runs have no cell in common.
func whyNone(before, after *Summary) error {
	for _, p := range slices.Concat(before.points, after.points) {
		others := after.points
		if slices.Contains(after.points, p) {
			others = before.points
		}
		if alike := alike(p, others); len(alike) > 1 {
			return fmt.Errorf("%s matches several cells (%s): name the cells with --before-cell and --after-cell", keyOf(p), strings.Join(keysOf(alike), ", "))
		}
	}
	return fmt.Errorf("the runs have no cell with the same load in common: the earlier has %s, the later has %s",
		firstOf(keysOf(before.points)), firstOf(keysOf(after.points)))
}

// foreignDoubts lists reasons not to trust a comparison with another program's figures.
func foreignDoubts(before, after *Summary, common []cellPair) []string {
	var doubts []string
	add := func(text string) { doubts = lists.AppendNew(doubts, text) }
	for _, run := range []struct {
		*Summary
		when string
	}{{before, "before"}, {after, "after"}} {
		if len(run.Foreign) > 0 {
			add(fmt.Sprintf("the figures %s are by %s, not by wirelab", run.when, strings.Join(run.Foreign, ", ")))
		}
	}
	for _, c := range common {
		a, b := c.before.Cell, c.after.Cell
		if a.Tool != b.Tool {
			add("two programs time calls differently")
			add("unknown whether both sent messages of one size")
		}
		if a.Load.Model != b.Load.Model {
			add(fmt.Sprintf("the load is %s before, %s after", a.Load.Model, b.Load.Model))
		}
		if a.Clients != b.Clients {
			add("unknown whether both had the same number of clients")
		}
	}
	return doubts
}

// diffMetric returns service times on both sides if another program measured: other programs
// report only those.
func diffMetric(name string, foreign bool) matrix.Metric {
	switch {
	case foreign && name == matrix.Mean:
		name = matrix.ServiceMean
	case foreign && name == matrix.P99:
		name = matrix.ServiceP99
	}
	return matrix.Metrics[name]
}
