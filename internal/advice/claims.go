package advice

import (
	"fmt"

	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/scenario"
)

// claims says of each claim of the scenario whether it holds here, and by what.
func claims(s *analysis.Summary) []string {
	var sentences, unmeasured, unasked []string
	for i := range s.Claims {
		c := &s.Claims[i]
		switch {
		case c.Unasked:
			unasked = append(unasked, quoted(c))
		case c.Outcome == analysis.Unmeasured:
			unmeasured = append(unmeasured, fmt.Sprintf("%s (%s and %s in %s)", quoted(c), c.Of, c.Against, c.Part))
		default:
			sentences = append(sentences, claimSentence(c))
		}
	}
	if len(unasked) > 0 {
		sentences = append(sentences, "Without its yardstick, which is measured where `run --yardstick` asks for it, nothing can be said here to "+list(unasked)+".")
	}
	if len(unmeasured) > 0 {
		sentences = append(sentences, "For want of valid trials nothing can be said here to "+list(unmeasured)+".")
	}
	return sentences
}

func quoted(c *analysis.Claim) string {
	text := "“" + c.Says + "”"
	if c.Row != "" {
		text = c.Row + ", " + text
	}
	return text
}

var claimFigures = map[scenario.Figure]string{
	scenario.MeanTime:   "mean time",
	scenario.CPU:        "CPU time at both ends",
	scenario.ClientCPU:  "CPU time at the client",
	scenario.ServerCPU:  "CPU time at the server",
	scenario.Throughput: "throughput",
}

var outcomes = map[analysis.Outcome]string{
	analysis.Holds:     "holds here",
	analysis.HoldsLess: "holds here, but for less than is claimed",
	analysis.HoldsNot:  "does not hold here",
	analysis.Open:      "undecided here",
}

func claimSentence(c *analysis.Claim) string {
	sentence := quoted(c) + ": " + outcomes[c.Outcome]
	if c.Below != "" {
		return fmt.Sprintf("%s: %s's %s over %s's is in %s %s what it is in %s.", sentence, c.Of, claimFigures[c.Figure], c.Against, c.Part, times(*c.Ratio), c.Below)
	}
	sentence += fmt.Sprintf(": %s has %s %s's %s in %s", c.Of, times(*c.Ratio), c.Against, claimFigures[c.Figure], c.Part)
	if c.Ratio.Interval == nil {
		sentence += ", in too few trials to be sure"
	}
	if c.ClaimedRatio != nil {
		sentence += fmt.Sprintf("; claimed are %s times", number(*c.ClaimedRatio))
	}
	return sentence + "."
}
