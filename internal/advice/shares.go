package advice

import (
	"fmt"
	"strings"

	"wirelab.dev/internal/analysis"
)

var shareNames = map[string]string{
	analysis.CPU:        "CPU time a request, of both ends,",
	analysis.Throughput: "throughput",
	analysis.Mean:       "the mean time of a call",
}

// shares says how the difference between a part's first variant and its last comes
// about: by CPU time, and by throughput and time as far as these differ at all.
func shares(s *analysis.Summary) []string {
	var sentences []string
	for _, difference := range s.Shares {
		if difference.Metric != analysis.CPU && !difference.Decided {
			continue
		}
		if difference.Metric == analysis.Mean && closedLoop(s, difference.Part) {
			continue // the throughput seen from the other side
		}
		sentences = append(sentences, shareSentence(difference))
	}
	return sentences
}

func closedLoop(s *analysis.Summary, part string) bool {
	for i := range s.Cells {
		if s.Cells[i].Part == part {
			return s.Cells[i].Load.Model == "closed"
		}
	}
	return false
}

func shareSentence(d analysis.Shares) string {
	where := fmt.Sprintf("%s of %s over %s's, %s with %s", shareNames[d.Metric], d.To, d.From, d.Workload, clients(d.Clients))
	switch {
	case d.Ratio.Interval == nil:
		return fmt.Sprintf("What makes up %s, is undecided: %s in too few repeats to be sure.", where, times(d.Ratio))
	case !d.Decided:
		return fmt.Sprintf("Undecided: %s: %s, which may be none, so there is nothing to share out.", where, times(d.Ratio))
	}
	texts := make([]string, len(d.Steps))
	for i, step := range d.Steps {
		texts[i] = step.Change + " "
		switch {
		case step.Share.Interval == nil || !step.Decided:
			texts[i] += fmt.Sprintf("undecided, %s", between(step.Share, share))
		case step.Share.Value < 0:
			texts[i] += fmt.Sprintf("%s, a saving", between(step.Share, share))
		default:
			texts[i] += between(step.Share, share)
		}
	}
	return fmt.Sprintf("%s: %s. Of this difference have %s.", upper(where), times(d.Ratio), strings.Join(texts, "; "))
}
