package advice

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/analysis"
)

// allocations says, part by part, what a call makes an end allocate: of the end that
// allocates most there, and which function does most of it.
func allocations(s *analysis.Summary) []string {
	var sentences []string
	for rest := s.Allocations; len(rest) > 0; {
		part := rest[0].Part
		n := slices.IndexFunc(rest, func(a analysis.Allocation) bool { return a.Part != part })
		if n < 0 {
			n = len(rest)
		}
		sentences = append(sentences, allocationSentence(part, rest[:n]))
		rest = rest[n:]
	}
	return sentences
}

func allocationSentence(part string, all []analysis.Allocation) string {
	sums := map[string]float64{}
	for _, a := range all {
		sums[a.End] += a.Bytes
	}
	end := analysis.ServerEnd
	if sums[analysis.ClientEnd] > sums[end] {
		end = analysis.ClientEnd
	}
	var texts []string
	for _, a := range all {
		if a.End != end {
			continue
		}
		text := fmt.Sprintf("%s %s in %s objects", a.Variant, size(a.Bytes), number(a.Objects))
		if len(a.Functions) > 0 {
			f := a.Functions[0]
			text += fmt.Sprintf(" (%s of the bytes by %s)", percent(f.Bytes), f.Function[strings.LastIndexByte(f.Function, '/')+1:])
		}
		texts = append(texts, text)
	}
	return fmt.Sprintf("What a call of %s makes the %s allocate: %s.", part, end, strings.Join(texts, "; "))
}
