package claim

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"wirelab.dev/internal/base/units"
)

// An evaluation holds the state of evaluating one expression.
type evaluation struct {
	from    Figures
	reason  string // why the expression has no value; empty if unknown
	missing bool   // whether a figure was missing
	refused bool   // whether a missing figure was measured, but is not usable
}

// noValue keeps the first reason.
func (s *evaluation) noValue(format string, args ...any) float64 {
	if s.reason == "" {
		s.reason = fmt.Sprintf(format, args...)
	}
	return math.NaN()
}

// environment returns the names that an expression may use. Its functions read the figures of the
// claim's part. The function named part returns the functions for another part.
func environment(part string, s *evaluation) map[string]any {
	names := s.figuresOf(part)
	names["part"] = func(name string) map[string]any { return s.figuresOf(name) }
	maps.Copy(names, map[string]any{
		"crossover": s.crossover, "knee": s.knee, "monotone": s.monotone,
		"converges": s.converges, "step": s.step, "within": ratioToNearerBound,
		"KiB": 1 << 10, "MiB": 1 << 20,
	})
	return names
}

func (s *evaluation) figuresOf(part string) map[string]any {
	cell := func(variant string, bytes, clients []int) Cell {
		return Cell{part, variant, valueOrLeast(bytes), valueOrLeast(clients)}
	}
	figure := func(name, variant string, at ...int) float64 {
		return s.figure(name, cell(variant, at[:min(1, len(at))], at[min(1, len(at)):]))
	}
	return map[string]any{
		"figure": figure,
		"ratio": func(name, of, against string, at ...int) float64 {
			return figure(name, of, at...) / figure(name, against, at...)
		},
		"spread": func(name string, bytes, clients int, rows []any) *Spread {
			return s.spread(func(variant string) float64 { return figure(name, variant, bytes, clients) }, rows)
		},
		"by_size": func(name, variant string, clients ...int) *Line {
			of := cell(variant, nil, clients)
			return s.line(name, s.from.Sizes(of), func(x int) Cell { of.Bytes = x; return of })
		},
		"by_clients": func(name, variant string, bytes ...int) *Line {
			of := cell(variant, bytes, nil)
			return s.line(name, s.from.Clients(of), func(x int) Cell { of.Clients = x; return of })
		},
	}
}

func valueOrLeast(given []int) int {
	if len(given) == 0 {
		return Least
	}
	return given[0]
}

func (s *evaluation) figure(name string, of Cell) float64 {
	value := s.from.Figure(name, of)
	if math.IsNaN(value) {
		s.missing = true
		if explainer, is := s.from.(Explainer); is {
			if why := explainer.WhyMissing(name, of); why != "" {
				s.refused = true
				return s.noValue("%s of %s: %s", name, of, why)
			}
		}
		return s.noValue("no %s of %s", name, of)
	}
	return value
}

func (c Cell) String() string {
	text := c.Variant + " in " + c.Part
	if c.Bytes > 0 {
		text += ", " + units.Bytes(c.Bytes, " ")
	}
	if c.Clients >= 0 {
		text += fmt.Sprintf(", %d client", c.Clients)
		if c.Clients != 1 {
			text += "s"
		}
	}
	return text
}

// A Line holds a figure for several sizes, or for several numbers of clients.
type Line struct{ X, Y []float64 }

func (s *evaluation) line(name string, along []int, at func(int) Cell) *Line {
	l := &Line{}
	for _, x := range along {
		l.X, l.Y = append(l.X, float64(x)), append(l.Y, s.figure(name, at(x)))
	}
	return l
}

// hasEnoughPoints reports whether all points of a line were measured, and at least the given
// number.
func (s *evaluation) hasEnoughPoints(l *Line, least int) bool {
	if len(l.X) < least {
		s.missing = true
		s.noValue("the line has %d points, want at least %d", len(l.X), least)
		return false
	}
	return !slices.ContainsFunc(l.Y, math.IsNaN)
}

// crossoverShare is the least share of points that must be measured on both lines. crossover
// ignores the other points, because a long sweep often has an invalid trial.
const crossoverShare = 0.7

// crossover returns the X from which a is above b. It chooses the X that best separates the points
// with a below b from the points with a above b, weighted by the logarithm of a/b.
func (s *evaluation) crossover(a, b *Line) float64 {
	if !slices.Equal(a.X, b.X) {
		return s.noValue("the lines have different points")
	}
	var x, logs []float64 // logs holds the logarithm of a/b at each x
	sum := 0.0
	for i := range a.X {
		if log := math.Log(a.Y[i] / b.Y[i]); !math.IsNaN(log) {
			x, logs = append(x, a.X[i]), append(logs, log)
			sum += log
		}
	}
	if len(x) < 2 || float64(len(x)) < crossoverShare*float64(len(a.X)) {
		s.missing = true
		return s.noValue("only %d of %d points were measured on both lines", len(x), len(a.X))
	}
	best, at, before := math.Abs(sum), 0, 0.0
	if sum <= 0 {
		at = len(logs)
	}
	for i := 1; i < len(logs); i++ {
		before += logs[i-1]
		if above := sum - before; above-before > best {
			best, at = above-before, i
		}
	}
	switch at {
	case 0:
		return s.noValue("the first line is above the second from the beginning")
	case len(logs):
		return s.noValue("the first line never overtakes the second")
	}
	low, high, share := math.Log(x[at-1]), math.Log(x[at]), 0.5
	if logs[at-1] < 0 && logs[at] > 0 {
		share = logs[at-1] / (logs[at-1] - logs[at])
	}
	return math.Exp(low + share*(high-low))
}

// kneeShare is the share of a line's greatest value that the line reaches at its knee.
const kneeShare = 0.9

// knee returns the X at which a line first reaches nine tenths of its greatest value.
func (s *evaluation) knee(l *Line) float64 {
	if !s.hasEnoughPoints(l, 3) {
		return math.NaN()
	}
	enough := kneeShare * slices.Max(l.Y)
	i := slices.IndexFunc(l.Y, func(y float64) bool { return y >= enough })
	if i == 0 {
		return l.X[0]
	}
	low, high := math.Log(l.X[i-1]), math.Log(l.X[i])
	return math.Exp(low + (high-low)*(enough-l.Y[i-1])/(l.Y[i]-l.Y[i-1]))
}

// monotone returns the smallest ratio of neighbouring values of a line, the later one divided by
// the earlier one. It is 1 or more if the line never falls.
func (s *evaluation) monotone(l *Line) float64 {
	if !s.hasEnoughPoints(l, 2) {
		return math.NaN()
	}
	least := math.Inf(1)
	for i := 1; i < len(l.Y); i++ {
		least = min(least, l.Y[i]/l.Y[i-1])
	}
	return least
}

// converges returns how many times the spread of lines at the first point exceeds the spread at
// the last point. The spread at a point is the greatest value divided by the least value.
func (s *evaluation) converges(lines ...*Line) float64 {
	apart := func(i func(*Line) float64) float64 {
		low, high := math.Inf(1), 0.0
		for _, l := range lines {
			low, high = min(low, i(l)), max(high, i(l))
		}
		return high / low
	}
	for _, l := range lines {
		if !s.hasEnoughPoints(l, 2) {
			return math.NaN()
		}
	}
	return apart(func(l *Line) float64 { return l.Y[0] }) / apart(func(l *Line) float64 { return l.Y[len(l.Y)-1] })
}

func (s *evaluation) step(l *Line, from, to int) float64 {
	at := func(x int) float64 {
		i := slices.Index(l.X, float64(x))
		if i < 0 {
			s.missing = true
			return s.noValue("the line has no point at %d", x)
		}
		return l.Y[i]
	}
	return at(to) / at(from)
}

// ratioToNearerBound returns the distance of a value from the nearer of two bounds, as a ratio. It
// is 1 or more if the value lies between the bounds.
func ratioToNearerBound(value, low, high float64) float64 { return min(value/low, high/value) }

// A Spread divides the differences in a table among rows, columns and single cells. The three
// shares add up to 1.
//
// It is the two-way layout of the logarithms, with one value per cell. Neither contains what is
// special to a cell, including chance. The interval over the repeats shows how large chance is.
type Spread struct {
	Rows    float64 `expr:"rows"`
	Columns float64 `expr:"columns"`
	Neither float64 `expr:"neither"`
}

// spread computes the Spread of a figure. Each row lists variants; all rows have equal lengths.
func (s *evaluation) spread(figure func(variant string) float64, rows []any) *Spread {
	none := &Spread{math.NaN(), math.NaN(), math.NaN()}
	table := make([][]float64, len(rows))
	for i, row := range rows {
		variants, _ := row.([]any)
		for _, variant := range variants {
			name, isName := variant.(string)
			if !isName {
				s.noValue("spread: %v is not a variant", variant)
				return none
			}
			table[i] = append(table[i], math.Log(figure(name)))
		}
		if len(table[i]) < 2 || len(rows) < 2 || len(table[i]) != len(table[0]) {
			s.noValue("spread: want at least two rows of equal length, each with at least two variants")
			return none
		}
	}
	return twoWay(table)
}

// twoWay divides the squared differences of a table's values from their mean.
func twoWay(table [][]float64) *Spread {
	rows, columns := float64(len(table)), float64(len(table[0]))
	ofRow, ofColumn, mean := make([]float64, len(table)), make([]float64, len(table[0])), 0.0
	for i, row := range table {
		for j, value := range row {
			ofRow[i] += value / columns
			ofColumn[j] += value / rows
			mean += value / rows / columns
		}
	}
	var byRow, byColumn, whole float64
	for i, row := range table {
		byRow += columns * square(ofRow[i]-mean)
		for _, value := range row {
			whole += square(value - mean)
		}
	}
	for j := range ofColumn {
		byColumn += rows * square(ofColumn[j]-mean)
	}
	return &Spread{byRow / whole, byColumn / whole, max(0, 1-(byRow+byColumn)/whole)}
}

func square(x float64) float64 { return x * x }
