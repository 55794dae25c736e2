// Package advice writes a run's results as plain sentences for somebody who must choose: which
// variant is fastest, from where more clients stop paying, which has the best tail, what a limit
// did, which variants survive reconnections, what resuming saves, what a request costs each end,
// and which figures are doubtful.
//
// It reads only an analysis, and claims no more than the analysis has proven: a difference without
// a proof is called so, and a figure without repeats has no winner. Invalid trials come first if
// the answer would have used them. Equal statements about several sizes become one sentence. Calls
// that another program made are not offered as a choice.
//
// [Answer] writes a few lines; [Advise] writes everything that can be said.
//
// Each function on a summary or a [rank.Part] answers one question and returns no sentences if it
// has no answer. Package rank orders the variants at each point; package words formats figures and
// places.
package advice

import (
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/curves"
)

// Advise returns plain sentences, the most important first. Second come changed judgements of
// trials since they were measured, and the end of a run that repeated until a goal: the answer may
// depend on them.
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
	var early []string // invalid trials come first if the advice would use them
	if missesEnds(main) {
		early, doubts = doubts, nil
	}
	var ofMain, ofOthers, ofBulk []string
	for _, p := range parts {
		switch {
		case p.Searched(): // rates differ by variant, so times of calls cannot be compared
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
