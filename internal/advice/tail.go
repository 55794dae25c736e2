package advice

import (
	"fmt"
	"strings"

	"wirelab.dev/internal/analysis"
)

// tail says who holds the tail with the most clients. P99/P50 alone would crown
// whoever is slow all the time, so the lowest P99 is beside it.
func tail(f *field) []string {
	if len(f.variants) < 2 {
		return nil
	}
	var clauses []string
	for _, bytes := range f.endSizes() {
		lowest, ok := f.stand(analysis.P99, spot{bytes, f.most()})
		if ok && len(lowest.others) > 0 {
			clauses = append(clauses, atSize(bytes)+f.tailAt(lowest))
		}
	}
	if len(clauses) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("The tail with %s: %s.", clients(f.most()), strings.Join(clauses, "; "))}
}

func (f *field) tailAt(lowest standing) string {
	low := f.cell(lowest.best, lowest.at)
	steady := f.steadiest(low, lowest.at)
	holds := "holds it best"
	doubt := ""
	switch {
	case lowest.once || len(lowest.equal)+len(lowest.unsure) > 0:
		holds, doubt = "is lowest", lowest.reserve()
	case steady != low:
		holds = "is lowest"
	}
	text := fmt.Sprintf("%s %s with a P99 of %s, %s times its P50%s", lowest.best, holds, between(lowest.value, micros), number(low.P99OverP50.Value), doubt)
	if steady == low {
		return text
	}
	return text + fmt.Sprintf(" (%s has the lowest P99/P50, %s, but over a P50 of %s, which makes its P99 %s: steady, not short)",
		steady.Variant, number(steady.P99OverP50.Value), micros(latencies(steady).P50.Value), micros(latencies(steady).P99.Value))
}

// steadiest is the cell with the lowest P99/P50. One that is hardly lower than
// that of the lowest P99 does not count.
func (f *field) steadiest(low *analysis.Cell, at spot) *analysis.Cell {
	steadiest := low
	for _, v := range f.variants {
		c := f.cell(v, at)
		if c != nil && c.P99OverP50.Value < 0.95*low.P99OverP50.Value && c.P99OverP50.Value < steadiest.P99OverP50.Value {
			steadiest = c
		}
	}
	return steadiest
}
