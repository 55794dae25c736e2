package analysis

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
)

// pairs returns a metric of both points for the repeats in which both have a valid
// trial: those two trials ran next to each other.
func pairs(a, b *point, of metric) (ofA, ofB []float64) {
	byRepeat := map[int]trial{}
	for _, t := range b.valid() {
		byRepeat[t.Repeat] = t
	}
	for _, t := range a.valid() {
		if other, both := byRepeat[t.Repeat]; both {
			ofA, ofB = append(ofA, of(t)), append(ofB, of(other))
		}
	}
	return ofA, ofB
}

// ratio is a metric of A over that of B, with an interval where there are
// enough pairs.
func ratio(a, b *point, of metric) Figure {
	ofA, ofB := pairs(a, b, of)
	if len(ofA) == 0 {
		ofA, ofB = values(a.valid(), of), values(b.valid(), of)
	}
	interval, err := stats.RatioInterval(ofA, ofB, a.level.confidence())
	if err != nil {
		return Figure{Value: stats.Median(ofA) / stats.Median(ofB)}
	}
	return estimated(stated(interval))
}

// rivals returns the points with valid trials, in groups that can be compared.
func rivals(points []*point) [][]*point {
	groups := lists.GroupBy(points, (*point).conditions)
	for i, group := range groups {
		groups[i] = slices.DeleteFunc(group, func(p *point) bool { return len(p.valid()) == 0 })
	}
	return slices.DeleteFunc(groups, func(group []*point) bool { return len(group) == 0 })
}

// byClients are the points that differ in nothing but their number of clients, in
// its order.
func byClients(points []*point) [][]*point {
	curves := lists.GroupBy(points, func(p *point) record.Cell {
		cell := p.cell
		cell.Clients = 0
		return cell
	})
	for _, curve := range curves {
		slices.SortFunc(curve, func(a, b *point) int { return cmp.Compare(a.cell.Clients, b.cell.Clients) })
	}
	return curves
}
