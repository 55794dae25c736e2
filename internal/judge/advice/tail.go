package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis/insight"
)

const (
	leastMainCauseShare  = 0.3 // a sentence names a cause only if the largest one has this share
	leastNamedCauseShare = 0.1
	// A probe whose cost is greater is named with its cost, because it may change what it measures.
	greatestUnnamedCost = 1.15
)

// tailSentences explains the slow calls of the explained cell, and of the cell that it is compared with.
func tailSentences(e *insight.Explanation) []string {
	var sentences []string
	for _, i := range e.Cells() {
		if i.Tail != nil && i.Tail.Refused == "" {
			sentences = append(sentences, tailSentence(i))
		}
	}
	return sentences
}

func tailSentence(i *insight.Insight) string {
	t := i.Tail
	text := fmt.Sprintf("The slowest %s of calls %s with %s (%s of %s) take %s, %s times the median: ",
		words.Percent(float64(t.SlowCalls)/float64(t.Calls)), overName(i), words.Clients(i.Clients),
		units.Thousands(int64(t.SlowCalls)), units.Thousands(int64(t.Calls)), words.Micros(t.Slow), units.Number(t.Slow/t.Median))
	text += tailCauses(t)
	switch {
	case t.EveryCalls != nil:
		text += "; every " + ordinal(*t.EveryCalls) + " call"
	case t.Every != nil:
		text += "; every " + words.Micros(*t.Every)
	}
	if cost := i.Life.Cost; cost != nil && *cost > greatestUnnamedCost {
		text += fmt.Sprintf(". The probe made calls take %s times as long", units.Number(*cost))
	}
	return text + "."
}

// tailCauses says what the slow calls spend their time with, if one cause explains much of it.
func tailCauses(t *insight.Tail) string {
	switch {
	case len(t.Causes) == 0 || t.Causes[0].Share < leastMainCauseShare:
		return "no single cause explains the difference; " + largestStages(t)
	case !t.Proves(t.Causes[0]):
		return "no single cause is proven; " + largestStages(t)
	}
	named := t.Causes[:1]
	for _, c := range t.Causes[1:min(len(t.Causes), words.MaxShownItems)] {
		if c.Share >= leastNamedCauseShare && t.Proves(c) {
			named = append(named, c)
		}
	}
	share := "%s of the difference is "
	return words.JoinWith(lists.Map(named, func(c insight.Cause) string {
		size := words.Percent(c.Share)
		if c.Share >= 1 { // other stages of slow calls are shorter
			size = "all"
		}
		text := fmt.Sprintf(share, size) + tailCauseWords(c)
		share = "%s "
		return text
	}), "and")
}

// largestStages names the stages with the largest shares of the difference.
func largestStages(t *insight.Tail) string {
	stages := slices.SortedStableFunc(slices.Values(t.Stages), func(a, b insight.TailStage) int { return cmp.Compare(b.Share, a.Share) })
	named := 1
	for named < min(len(stages), words.MaxShownItems) && stages[named].Share >= leastNamedCauseShare {
		named++
	}
	text := "the largest part is "
	if named > 1 {
		text = "the largest parts are "
	}
	return text + words.List(lists.Map(stages[:named], func(s insight.TailStage) string {
		return fmt.Sprintf("%s (%s)", s.Name, words.Percent(s.Share))
	}))
}

// tailCauseWords names a cause of slow calls and its end.
func tailCauseWords(c insight.Cause) string {
	at := "on the " + c.End
	if c.End == "" {
		at = "at both ends"
	}
	switch c.Kind {
	case insight.ByHandler:
		return "the handler"
	case insight.ByHandlerWait:
		return "waiting in the handler"
	}
	return map[insight.CauseKind]string{
		insight.ByRunQueue:   "the run queue",
		insight.ByCollector:  "the garbage collector",
		insight.ByLock:       "waiting for a lock",
		insight.ByWindow:     "waiting for a flow-control window",
		insight.ByNeighbour:  "waiting while another program or thread had the CPU",
		insight.ByHeadOfLine: "waiting behind other calls",
		insight.ByConnection: "data that waits in the socket",
		insight.ByPackets:    "sending and receiving in the kernel",
		insight.ByWaking:     "waking threads",
		insight.ByProtocol:   "the library's code",
	}[c.Kind] + " " + at
}

// ordinal writes a number as in 1st, 2nd, 3rd and 4th.
func ordinal(n int) string {
	suffix := "th"
	if tens := n / 10 % 10; tens != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}
