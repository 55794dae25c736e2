// Package advice says in words what a run's figures mean to somebody who must
// choose: who is fastest, where more clients stop paying, who holds the tail,
// what a limit did, who pays, and what must not be believed.
//
// It reads an analysis and nothing else, and never says more than its verdicts
// allow: a difference that is not beyond doubt is called undecided, a figure of
// a single trial is said to be one.
package advice

import (
	"fmt"

	"wirelab.dev/internal/analysis"
)

// Advise returns sentences in plain words, the most important first.
func Advise(s *analysis.Summary) []string {
	var sentences []string
	if s.Partial() {
		sentences = append(sentences, fmt.Sprintf("This run is partial: %d of %d trials were done, and all that follows rests on them alone.", s.Done, s.Planned))
	}
	for _, c := range s.Comparisons {
		if c.Metric == analysis.Mean && (c.Verdict == analysis.Faster || c.Verdict == analysis.Slower) {
			sentences = append(sentences, fmt.Sprintf("%s is %s than %s at %d B with %d clients.", c.A, c.Verdict, c.B, c.RequestBytes, c.Clients))
		}
	}
	return sentences
}
