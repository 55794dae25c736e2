// Package advice says in words what a run's figures mean to somebody who must
// choose: which variant is fastest, where more clients stop paying, which has the
// best tail, what a limit did, which survives reconnections and what resuming
// saves, what a request costs each end, and which figures are doubtful.
//
// It reads an analysis and nothing else, and never says more than its verdicts
// allow. A difference that is not beyond doubt is called so, a figure without
// repeats has no winner, and what is invalid comes first if the answer would have
// rested on it. Equal statements about several sizes are one sentence. Calls that
// another program made are no variant to choose.
//
// [Answer] is for somebody who reads a few lines, [Advise] has all that can be said.
//
// Each function of a summary or of a [rank.Part] answers one question, with sentences or
// not at all. Package rank knows who is best where, package words how figures and places
// are written.
package advice

import (
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/curves"
)

// Advise returns sentences in plain words, the most important first. Where a
// trial is judged otherwise than when it was measured, or the run was repeated until
// something stood, that comes second: the answer may rest on it.
func Advise(s *analysis.Summary) []string {
	if len(s.Foreign) > 0 {
		return slices.Concat([]string{whose(s)}, invalid(s), caution(s))
	}
	sentences := byWire(s, inOrder(s))
	return slices.Insert(sentences, min(1, len(sentences)), append(looks(s), rejudged(s)...)...)
}

func inOrder(s *analysis.Summary) []string {
	parts := rank.PartsOf(s)
	if len(parts) == 0 {
		return append(partial(s), allocations(s)...)
	}
	main := rank.MainPart(parts)
	doubts := append(overloads(s), invalid(s)...)
	if s.Report.Cases && len(parts) > 1 { // many small cases without a main one
		return slices.Concat(partial(s), claims(s), lists.Map(casePairs(s), caseVerdict), caseLimits(s), shares(s), bursts(s), sustained(s), doubts, caution(s))
	}
	var lifecycle []string
	for _, p := range parts {
		lifecycle = append(lifecycle, words.Prefixed(p, parts, reconnections(p))...)
	}
	if len(main.Sizes) == 0 {
		return slices.Concat(partial(s), doubts, lifecycle)
	}
	if s.IsSweep() {
		return slices.Concat(partial(s), claims(s), bottlenecks(s), doubts, caution(s))
	}
	var early []string // what is invalid comes first if the advice would look for it
	if missesEnds(main) {
		early, doubts = doubts, nil
	}
	var ofMain, ofOthers, ofBulk []string
	for _, p := range parts {
		switch {
		case p.Searched(): // each variant has another rate: times of calls cannot be compared
		case p == main:
			ofMain = append(words.Prefixed(p, parts, fastest(p)), words.Prefixed(p, parts, choice(p))...)
		case !p.Cold() && !p.Within(main):
			ofOthers = append(ofOthers, words.Prefixed(p, parts, fastest(p))...)
		}
		ofBulk = append(ofBulk, bulk(p)...)
	}
	return slices.Concat(
		partial(s), claims(s), steps(s), early, lifecycle,
		searches(s), bursts(s), sustained(s), contrasts(s), otherConnections(s),
		ofMain, highestThroughput(main), knees(s, curves.ByThroughput),
		tail(main), knees(s, curves.ByTail), tooFewForKnees(s),
		why(s), ofOthers, crossovers(s, parts), limits(s),
		cost(main), ofBulk, bound(main), shares(s), allocations(s),
		warmUp(s), power(s), doubts, caution(s),
	)
}
