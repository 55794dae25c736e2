package advice

import (
	"fmt"

	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/scenario"
)

// claims says of each claim of the scenario whether it holds here, and by what.
func claims(s *analysis.Summary) []string {
	var sentences []string
	for i := range s.Claims {
		sentences = append(sentences, claimSentence(&s.Claims[i]))
	}
	return sentences
}

var claimFigures = map[scenario.Figure]string{
	scenario.MeanTime:   "mean time",
	scenario.CPU:        "CPU time at both ends",
	scenario.ClientCPU:  "CPU time at the client",
	scenario.ServerCPU:  "CPU time at the server",
	scenario.Throughput: "throughput",
}

var outcomes = map[analysis.Outcome]string{
	analysis.Holds:      "holds here",
	analysis.HoldsLess:  "holds here, but for less than is claimed",
	analysis.HoldsNot:   "does not hold here",
	analysis.Open:       "undecided here",
	analysis.Unmeasured: "not measured here",
}

func claimSentence(c *analysis.Claim) string {
	lead := "“" + c.Says + "”"
	if c.Row != "" {
		lead = c.Row + ", " + lead
	}
	sentence := lead + ": " + outcomes[c.Outcome]
	switch {
	case c.Outcome == analysis.Unmeasured:
		return fmt.Sprintf("%s, for want of valid trials of %s and %s in %s.", sentence, c.Of, c.Against, c.Part)
	case c.Below != "":
		return fmt.Sprintf("%s: %s's %s over %s's is in %s %s what it is in %s.", sentence, c.Of, claimFigures[c.Figure], c.Against, c.Part, times(c.Ratio), c.Below)
	}
	sentence += fmt.Sprintf(": %s has %s %s's %s in %s", c.Of, times(c.Ratio), c.Against, claimFigures[c.Figure], c.Part)
	if c.Ratio.Interval == nil {
		sentence += ", in too few trials to be sure"
	}
	if c.Claim.Ratio > 0 {
		sentence += fmt.Sprintf("; claimed are %s times", number(c.Claim.Ratio))
	}
	return sentence + "."
}
