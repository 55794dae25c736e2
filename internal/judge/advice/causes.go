package advice

import (
	"fmt"
	"math"
	"strings"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// causeSentence says how far the measured trials differ, and names the causes. Its verdict is that of the
// measured trials, whatever the probes found.
func causeSentence(e *insight.Explanation) []string {
	m := &e.Measured
	if e.Against == nil {
		if m.B == nil {
			return nil
		}
		text := fmt.Sprintf("A call %s takes %s%s", overName(e.Of), words.Micros(*m.B), sizeAndClients(e.Of))
		return []string{validityClause(e) + text + listCauses(e, *m.B)}
	}
	difference, known := m.Difference()
	if !known || m.Ratio == nil {
		return nil
	}
	b, a := distinctNames(e)
	shared := sharedSize(e)
	switch {
	case m.Verdict == compare.Equivalent && m.Margin > 0 && m.Margin <= matrix.Margin:
		return []string{fmt.Sprintf("Calls %s and %s take equally long%s, within %s: there is no difference to explain.", b, a, shared, words.Percent(m.Margin))}
	case m.IsProven():
		more := "longer"
		if difference < 0 {
			more = "shorter"
		}
		return []string{fmt.Sprintf("%sA call %s takes %s %s than %s%s (%s)%s", validityClause(e), b, words.Micros(math.Abs(difference)), more, a, shared,
			signedPercent(m.Ratio.Value), listCauses(e, difference))}
	}
	if validity := validityClause(e); validity != "" && len(e.Causes) > 0 {
		return []string{fmt.Sprintf("%sThe probes point to %s.", validity, joinCauses(e, difference, false))}
	}
	text := fmt.Sprintf("%sThe measured trials do not prove that calls %s and %s differ%s%s.", validityClause(e), b, a, shared, rangeText(m.Ratio))
	if len(e.Causes) == 0 {
		return []string{text + " The probes name no cause either."}
	}
	return []string{text + " The probes point to " + joinCauses(e, difference, false) + "."}
}

// sharedSize returns the size and the clients that both cells have, or nothing.
func sharedSize(e *insight.Explanation) string {
	if e.Against == nil || sizeAndClients(e.Of) != sizeAndClients(e.Against) {
		return ""
	}
	return sizeAndClients(e.Of)
}

// rangeText writes the interval of a ratio as changes in percent.
func rangeText(r *matrix.Figure) string {
	if r.Interval == nil {
		return fmt.Sprintf(" (%s; too few valid trials for an interval)", signedPercent(r.Value))
	}
	return fmt.Sprintf(" (%s to %s)", signedPercent(r.Interval.Low), signedPercent(r.Interval.High))
}

// signedPercent writes a ratio as a change in percent.
func signedPercent(ratio float64) string {
	percent := 100 * (ratio - 1)
	decimals := 0
	if math.Abs(percent) < 9.95 {
		decimals = 1
	}
	text := strings.TrimSuffix(fmt.Sprintf("%.*f", decimals, math.Abs(percent)), ".0")
	switch {
	case text == "0":
		return "0 %"
	case percent < 0:
		return "−" + text + " %"
	}
	return "+" + text + " %"
}

// validityClause says how many trials are valid if they are too few.
func validityClause(e *insight.Explanation) string {
	few := func(i *insight.Insight) bool {
		return i.Facts.Valid < i.Facts.Trials && i.Facts.Valid < matrix.LeastTrials
	}
	count := func(i *insight.Insight, name string) string {
		return fmt.Sprintf("%d of %s %s", i.Facts.Valid, words.Count(i.Facts.Trials, "trial"), name)
	}
	var counts []string
	if e.Against == nil {
		if few(e.Of) {
			counts = []string{count(e.Of, overName(e.Of))}
		}
	} else if b, a := distinctNames(e); few(e.Of) || few(e.Against) {
		counts = []string{count(e.Of, b), count(e.Against, a)}
	}
	if len(counts) == 0 {
		return ""
	}
	text := "Too few trials are valid"
	if others := mostOthers(e); others >= manyOthers {
		text = fmt.Sprintf("Other programs used %s CPUs, so too few trials are valid", units.Number(others))
	}
	return fmt.Sprintf("%s%s: %s. ", text, sharedSize(e), words.List(counts))
}

// manyOthers is the number of CPUs from which other programs are the likeliest reason for invalid trials.
const manyOthers = 0.2

// mostOthers returns how many CPUs other programs used in the cell that they disturbed most.
func mostOthers(e *insight.Explanation) (cpus float64) {
	for _, i := range e.Cells() {
		if i.Facts.Others != nil {
			cpus = max(cpus, *i.Facts.Others)
		}
	}
	return cpus
}

// listCauses ends a sentence that says how long calls take.
func listCauses(e *insight.Explanation, whole float64) string {
	if len(e.Causes) == 0 {
		text := ". The probes name no cause"
		if differ := e.Differences(); len(differ) > 0 {
			text += "; the cells differ in " + words.List(differ)
		}
		return text + "."
	}
	return ": " + joinCauses(e, whole, true) + "."
}

// joinCauses names the first causes, until they explain half of the whole.
func joinCauses(e *insight.Explanation, whole float64, proven bool) string {
	var named []string
	explained, reasons := 0.0, false
	for _, c := range e.Causes {
		if len(named) == words.MaxShownItems || len(named) > 0 && explained >= whole/2 && whole > 0 || len(named) > 0 && explained <= whole/2 && whole < 0 {
			break
		}
		text := words.Micros(math.Abs(c.Time))
		switch {
		case e.Against != nil && !proven:
			text += moreOrLess(c.Time)
		case math.Abs(c.Time) > 1.05*math.Abs(whole):
			text += moreOrLess(whole) + " per call"
		case len(named) == 0:
			text += " of it"
		}
		verb := " is "
		if e.Against != nil && !proven {
			verb = " in "
		}
		text += verb + causeText(c)
		if c.Because != "" {
			text += ", because "
			if c.Time < 0 { // the reason is in the other cell
				_, a := distinctNames(e)
				text += a + " "
			}
			text += c.Because
			reasons = true
		}
		if c.Kind == insight.ByHandlerWait && c.Because == "" {
			text += ", for what is not known"
		}
		named = append(named, text)
		explained += c.Time
	}
	text := strings.Join(named, "; ")
	if proven && math.Abs(explained) < math.Abs(whole)/2 {
		text += "; what is left is not explained"
	}
	if differ := e.Differences(); !reasons && len(differ) > 0 {
		text += fmt.Sprintf("; the cells differ in %s", words.List(differ))
	}
	return text
}

func moreOrLess(difference float64) string {
	if difference < 0 {
		return " less"
	}
	return " more"
}

// causeWords names each kind of cause. %s is the end.
var causeWords = map[insight.CauseKind]struct{ one, both string }{
	insight.ByCollector:   {"the %s's garbage collector", "the garbage collectors of both ends"},
	insight.ByAllocation:  {"allocating memory at the %s", "allocating memory at both ends"},
	insight.ByFaults:      {"page faults at the %s", "page faults at both ends"},
	insight.ByCopying:     {"copying memory at the %s", "copying memory at both ends"},
	insight.ByEncoding:    {"encoding and decoding messages at the %s", "encoding and decoding messages"},
	insight.ByProtocol:    {"the library's own code at the %s", "the libraries' own code at both ends"},
	insight.ByHandshake:   {"opening connections, most of it at the %s", "opening connections"},
	insight.ByEncryption:  {"encryption at the %s", "encryption at both ends"},
	insight.BySystemCalls: {"entering the kernel at the %s", "entering the kernel at both ends"},
	insight.ByPackets:     {"the kernel's network stack at the %s", "the kernel's network stack at both ends"},
	insight.ByLink:        {"the link", "the link"},
	insight.ByWaking:      {"waking and switching threads at the %s", "waking and switching threads at both ends"},
	insight.ByRunQueue:    {"waiting for the %s's CPU", "waiting for a CPU"},
	insight.BySharedCPU:   {"waiting for the CPU that both ends share", "waiting for the CPU that both ends share"},
	insight.ByNeighbour:   {"waiting for CPUs that other programs use, at the %s", "waiting for CPUs that other programs use"},
	insight.ByHandler:     {"the handler", "the handler"},
	insight.ByBackground:  {"goroutines of the service that run no handler", "goroutines of the service that run no handler"},
	insight.ByHandlerWait: {"the handler, which waits", "the handler, which waits"},
	insight.ByLock:        {"waiting for a lock at the %s", "waiting for locks"},
	insight.ByWindow:      {"waiting for the flow-control window", "waiting for the flow-control window"},
	insight.ByLimit:       {"waiting for a permit", "waiting for a permit"},
	insight.ByHeadOfLine:  {"waiting behind other calls on the same connection", "waiting behind other calls on the same connection"},
	insight.ByQuota:       {"having no CPU at the %s", "having no CPU"},
	insight.ByAcks:        {"waiting for acknowledgements of packets", "waiting for acknowledgements of packets"},
	insight.ByProcesses:   {"starting other processes", "starting other processes"},
	insight.ByConnection:  {"waiting for the connection's reader or writer at the %s", "waiting for the connections' readers and writers"},
}

func causeText(c insight.Cause) string {
	text := causeWords[c.Kind]
	if c.End == "" || !strings.Contains(text.one, "%s") {
		if c.End != "" {
			return text.one
		}
		return text.both
	}
	return fmt.Sprintf(text.one, c.End)
}
