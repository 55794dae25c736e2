// Package advice says in words what a run's figures mean to somebody who must
// choose: who is fastest, where more clients stop paying, who holds the tail,
// what a limit did, who survives reconnections and what resuming saves, who
// pays, and what must not be believed.
//
// It reads an analysis and nothing else, and never says more than its verdicts
// allow. A difference that is not beyond doubt is called so, a figure without
// repeats has no winner, and what is invalid comes first where a reader would
// otherwise look for it in vain. Equal statements about several sizes are one
// sentence.
//
// A part of a scenario is a [field]: variants at every size and concurrency.
// Each file knows one question, and answers it with sentences or not at all.
package advice

import (
	"slices"

	"wirelab.dev/internal/analysis"
)

// Advise returns sentences in plain words, the most important first. Where a
// trial is judged otherwise than when it was measured, that comes second: the
// answer may rest on it.
func Advise(s *analysis.Summary) []string {
	sentences := answers(s)
	return slices.Insert(sentences, min(1, len(sentences)), rejudged(s)...)
}

func answers(s *analysis.Summary) []string {
	fields := fieldsOf(s)
	if len(fields) == 0 {
		return append(partial(s), allocations(s)...)
	}
	main := slices.MaxFunc(fields, func(a, b *field) int { return len(a.cells) - len(b.cells) })
	doubts := invalid(s)
	if s.Report.Cases && len(fields) > 1 {
		return slices.Concat(partial(s), claims(s), cases(s), doubts, caution(s))
	}
	var storms []string
	for _, f := range fields {
		storms = append(storms, f.among(fields, storm(f))...)
	}
	if len(main.sizes) == 0 {
		return slices.Concat(partial(s), doubts, storms)
	}
	sentences := append(partial(s), claims(s)...)
	if s.IsSweep() {
		return append(append(append(sentences, bottlenecks(s)...), doubts...), caution(s)...)
	}
	if missesEnds(main) {
		sentences, doubts = append(sentences, doubts...), nil
	}
	sentences = append(sentences, storms...)
	sentences = append(sentences, searches(s)...)
	sentences = append(sentences, bursts(s)...)
	sentences = append(sentences, sustained(s)...)
	sentences = append(sentences, contrasts(s)...)
	sentences = append(sentences, unachieved(s)...)
	if !main.searched() { // each variant has another rate there: what a call takes cannot be compared
		sentences = append(sentences, main.among(fields, fastest(main))...)
		sentences = append(sentences, choice(main)...)
	}
	sentences = append(sentences, highestThroughput(main)...)
	sentences = append(sentences, knees(s, analysis.ByThroughput)...)
	sentences = append(sentences, tail(main)...)
	sentences = append(sentences, knees(s, analysis.ByTail)...)
	sentences = append(sentences, tooFewForKnees(s)...)
	for _, f := range fields {
		if f != main && !f.cold() && !f.searched() && !f.variantsOf(main) {
			sentences = append(sentences, f.among(fields, fastest(f))...)
		}
	}
	sentences = append(sentences, crossovers(s, fields)...)
	sentences = append(sentences, limits(s)...)
	sentences = append(sentences, cost(main)...)
	for _, f := range fields {
		sentences = append(sentences, bulk(f)...)
	}
	sentences = append(sentences, bound(main)...)
	sentences = append(sentences, shares(s)...)
	sentences = append(sentences, allocations(s)...)
	sentences = append(sentences, warmUp(s)...)
	sentences = append(sentences, doubts...)
	return append(sentences, caution(s)...)
}
