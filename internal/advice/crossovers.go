package advice

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/analysis"
)

// sweepSizes is the fewest sizes along which the analysis seeks crossovers.
const sweepSizes = 4

// crossovers says which variant overtakes which as messages grow.
func crossovers(s *analysis.Summary, fields []*field) []string {
	var clauses, unclear []string
	for _, c := range s.Crossovers {
		pair := fmt.Sprintf("%s and %s near %s with %s", c.A, c.B, size(c.Bytes.Value), clients(c.Clients))
		if c.Kind == "indistinct" {
			unclear = append(unclear, pair)
			continue
		}
		clause := fmt.Sprintf("%s overtakes %s at %s with %s, %s", c.B, c.A, between(c.Bytes, size), clients(c.Clients), manner(c.Kind))
		clauses = append(clauses, clause)
	}
	var sentences []string
	if len(clauses) > 0 {
		sentences = append(sentences, "As messages grow, "+strings.Join(clauses, "; ")+".")
	}
	if len(unclear) > 0 {
		sentences = append(sentences, "Whether these cross at all is within the noise: "+strings.Join(unclear, "; ")+".")
	}
	if len(sentences) > 0 {
		return sentences
	}
	return withoutCrossover(fields)
}

func manner(kind string) string {
	if kind == "sharp" {
		return "sharply, from one size to the next"
	}
	return "gradually"
}

// withoutCrossover tells looking without finding from not having been able to
// look.
func withoutCrossover(fields []*field) []string {
	long := slices.DeleteFunc(slices.Clone(fields), func(f *field) bool {
		return len(f.sizes) < sweepSizes || len(f.variants) < 2
	})
	for _, f := range long {
		if f.repeated() {
			return []string{fmt.Sprintf("From %s to %s no variant overtakes another.",
				size(float64(f.sizes[0])), size(float64(f.sizes[len(f.sizes)-1])))}
		}
	}
	if len(long) > 0 {
		return []string{"Where one variant overtakes another as messages grow cannot be told from so few trials: it takes three of each cell."}
	}
	return nil
}

// repeated tells whether most cells have the trials that a verdict takes.
func (f *field) repeated() bool {
	enough := 0
	for _, c := range f.cells {
		if c.Throughput.Interval != nil {
			enough++
		}
	}
	return 2*enough > len(f.cells)
}
