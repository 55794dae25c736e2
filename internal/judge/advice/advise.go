// Package advice writes a run's results as plain sentences for somebody who must choose a variant.
// They name the fastest variant, the load at which throughput stops growing, the shortest tail, the
// effect of limits, connections and resumption, the cost of a request, and doubtful figures.
//
// It claims no more than the analysis has proven. Without repeats it names no winner. Sentences
// about invalid trials come first if the answer needs these trials. Points with the same result share
// one statement. Another program's client is never recommended.
//
// [Answer] writes a few lines; [Advise] writes all sentences.
//
// Each function on a summary or a [rank.Part] answers one question, and returns nil if there is no
// answer. Package rank orders the variants at each point. Package words formats the texts.
package advice

import (
	"slices"

	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/curves"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Advise returns plain sentences, the most important first. Sentences about rejudged trials and the
// goal of the repeats come early, because the answer may depend on these facts.
func Advise(s *analysis.Summary) []string {
	if len(s.Foreign) > 0 {
		return slices.Concat([]string{foreignNotice(s)}, invalidTrials(s), cautions(s))
	}
	sentences := withShortVariants(s, orderedSentences(s))
	return slices.Insert(sentences, min(1, len(sentences)), append(repeatGoal(s), rejudgedTrials(s)...)...)
}

func orderedSentences(s *analysis.Summary) []string {
	parts := rank.PartsOf(s)
	if len(parts) == 0 {
		return append(partialNotice(s), allocationSentences(s)...)
	}
	main := rank.MainPart(parts)
	doubts := append(overloadSentence(s), invalidTrials(s)...)
	if s.Report.Cases && len(parts) > 1 { // many small cases, and none is the main one
		return slices.Concat(partialNotice(s), claimSentences(s), caseLines(s), caseLimits(s), shareSentences(s), burstSentences(s), sustainedLine(s), doubts, cautions(s))
	}
	lifecycle := reconnectionLines(parts)
	if len(main.Sizes) == 0 {
		return slices.Concat(partialNotice(s), doubts, lifecycle)
	}
	if s.IsSweep() {
		return slices.Concat(partialNotice(s), claimSentences(s), bottleneckSentences(s), doubts, cautions(s))
	}
	var early []string // invalid trials come first if the advice would use them
	if hasInvalidEnd(main) {
		early, doubts = doubts, nil
	}
	var ofMain, ofOthers, ofBulk []string
	for _, p := range parts {
		switch {
		case p.IsSearched(): // variants have different rates, so their call times cannot be compared
		case p == main:
			ofMain = words.PrefixPart(p, parts, metricSentences(p, matrix.Mean, matrix.P99, matrix.CPU))
		case !p.IsCold() && !p.HasVariantsIn(main):
			ofOthers = append(ofOthers, words.PrefixPart(p, parts, metricSentences(p, matrix.Mean))...)
		}
		ofBulk = append(ofBulk, bulkCostSentence(p)...)
	}
	return slices.Concat(
		partialNotice(s), claimSentences(s), stepLines(s), early, lifecycle,
		searchSentences(s), burstSentences(s), sustainedLine(s), contrastSentences(s),
		ofMain, bestRates(main), kneeSentences(s, curves.KneeOfThroughput), kneeSentences(s, curves.KneeOfTail), noKneeSentence(s),
		probeExplanation(s), ofOthers, crossoverSentences(s), limitEffects(s),
		ofBulk, limitOfLoop(s, main), shareSentences(s), allocationSentences(s),
		warmUpSentence(s), powerSentences(s), doubts, cautions(s),
	)
}
