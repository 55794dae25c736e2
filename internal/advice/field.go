package advice

import (
	"slices"
	"strings"

	"wirelab.dev/internal/analysis"
)

// field is a part of the scenario: variants at sizes and concurrencies. Its
// axes hold what has a valid trial.
type field struct {
	part        string
	cells       []*analysis.Cell // valid or not
	variants    []string         // in the order of the cells
	sizes       []int            // ascending
	clients     []int            // ascending
	comparisons []*analysis.Comparison
}

// spot is where variants meet.
type spot struct{ bytes, clients int }

func fieldsOf(s *analysis.Summary) []*field {
	var fields []*field
	of := func(part string) *field {
		i := slices.IndexFunc(fields, func(f *field) bool { return f.part == part })
		if i < 0 {
			i = len(fields)
			fields = append(fields, &field{part: part})
		}
		return fields[i]
	}
	for i := range s.Cells {
		c := &s.Cells[i]
		f := of(c.Part)
		f.cells = append(f.cells, c)
		if c.IsValid() {
			f.variants = withNew(f.variants, c.Variant)
			f.sizes = withNew(f.sizes, c.RequestBytes)
			f.clients = withNew(f.clients, c.Clients)
		}
	}
	for i := range s.Comparisons {
		c := &s.Comparisons[i]
		f := of(c.Part)
		f.comparisons = append(f.comparisons, c)
	}
	for _, f := range fields {
		slices.Sort(f.sizes)
		slices.Sort(f.clients)
	}
	return fields
}

func withNew[T comparable](list []T, item T) []T {
	if slices.Contains(list, item) {
		return list
	}
	return append(list, item)
}

// cell is nil where it has no valid trial.
func (f *field) cell(variant string, at spot) *analysis.Cell {
	for _, c := range f.cells {
		if c.IsValid() && c.Variant == variant && c.RequestBytes == at.bytes && c.Clients == at.clients {
			return c
		}
	}
	return nil
}

// ends are the lowest and the highest concurrency, or the only one.
func (f *field) ends() []int {
	if len(f.clients) < 2 {
		return f.clients
	}
	return []int{f.clients[0], f.clients[len(f.clients)-1]}
}

func (f *field) most() int { return f.clients[len(f.clients)-1] }

// endSizes are the smallest and the largest size, or the only one.
func (f *field) endSizes() []int {
	if len(f.sizes) < 2 {
		return f.sizes
	}
	return []int{f.sizes[0], f.sizes[len(f.sizes)-1]}
}

// cold tells whether the part was measured without warm-up, so that its figures
// are of the start.
func (f *field) cold() bool {
	return !slices.ContainsFunc(f.cells, func(c *analysis.Cell) bool { return !c.IsValid() || c.WarmUp.Value > 0 })
}

// closed tells whether clients wait for their answers before they ask again.
func (f *field) closed() bool { return f.cells[0].Load.Model == "closed" }

// searched tells whether the rate of each cell was searched for.
func (f *field) searched() bool { return f.cells[0].Load.Model == "search" }

func (f *field) variantsOf(other *field) bool {
	return !slices.ContainsFunc(f.variants, func(v string) bool { return !slices.Contains(other.variants, v) })
}

// seen is a comparison from the side of one variant: how many times more the
// other one takes, and the verdict on the one.
type seen struct {
	other   string
	times   analysis.Figure // the other's figure over the one's
	verdict analysis.Verdict
	pairs   int
}

func (f *field) against(one, other, metric string, at spot) (seen, bool) {
	for _, c := range f.comparisons {
		if c.Metric != metric || c.RequestBytes != at.bytes || c.Clients != at.clients {
			continue
		}
		switch {
		case c.A == one && c.B == other:
			return seen{other: other, times: c.Ratio.Inverse(), verdict: c.Verdict, pairs: c.Pairs}, true
		case c.A == other && c.B == one:
			return seen{other: other, times: c.Ratio, verdict: opposite(c.Verdict), pairs: c.Pairs}, true
		}
	}
	return seen{}, false
}

func opposite(v analysis.Verdict) analysis.Verdict {
	switch v {
	case analysis.Faster:
		return analysis.Slower
	case analysis.Slower:
		return analysis.Faster
	}
	return v
}

// latencies are of the response, as the caller sees it.
func latencies(c *analysis.Cell) *analysis.Latencies {
	if c.Response != nil {
		return c.Response
	}
	return &c.Service
}

// among puts the part's name before sentences where there are several parts of
// which the same could be said.
func (f *field) among(fields []*field, sentences []string) []string {
	if len(fields) < 2 || f.part == "" {
		return sentences
	}
	named := make([]string, len(sentences))
	for i, sentence := range sentences {
		named[i] = f.part + ": " + strings.ToLower(sentence[:1]) + sentence[1:]
	}
	return named
}
