package matrix

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
)

// Pairs returns a metric of both points for the repeats in which both have a valid trial:
// those two trials ran next to each other.
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

// Ratio returns a metric of A over that of B, with an interval if there are enough pairs.
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

// Rivals returns the points with valid trials, in groups that can be compared.
func Rivals(points []*Point) [][]*Point {
	groups := lists.GroupBy(points, (*Point).Conditions)
	for i, group := range groups {
		groups[i] = slices.DeleteFunc(group, func(p *Point) bool { return len(p.Valid()) == 0 })
	}
	return slices.DeleteFunc(groups, func(group []*Point) bool { return len(group) == 0 })
}

// ByClients groups the points that differ in nothing but their number of clients, in its
// order.
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
