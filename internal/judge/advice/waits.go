package advice

import (
	"fmt"
	"math"
	"path"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis/insight"
)

// waitSentence says for what the threads and goroutines of each end wait, from the probe offcpu.
func waitSentence(e *insight.Explanation) []string {
	var clauses []string
	for _, waits := range e.OffCPU {
		amount := waits.Whole.Difference()
		text := words.Micros(math.Abs(amount))
		if e.Against != nil {
			text += map[bool]string{true: " less", false: " more"}[amount < 0]
		}
		clauses = append(clauses, fmt.Sprintf("%s on the %s, most of it %s", text, waits.End, largestParts(waits, amount)))
	}
	if len(e.Causes) > 0 && e.Causes[0].Kind == insight.ByHandlerWait && e.Causes[0].Because == "" && e.Of.Server.OffCPU == nil {
		return []string{"The probe offcpu tells for what the handler waits: measure again with --probe life,cpu,offcpu."}
	}
	return callSentence(e, "Waiting time of all threads and goroutines together,", clauses)
}

// allocatedSentence says how much each end allocates per call, and which function allocates most of it, or
// most of the difference.
func allocatedSentence(e *insight.Explanation) []string {
	var clauses []string
	for _, a := range e.Allocations {
		text := fmt.Sprintf("%s in %s objects on the %s", words.Size(a.Bytes.B), units.Number(a.Objects.B), a.End)
		if e.Against != nil {
			text += fmt.Sprintf(", against %s in %s", words.Size(a.Bytes.A), units.Number(a.Objects.A))
		}
		if len(a.Functions) > 0 {
			most := a.Functions[0]
			text += fmt.Sprintf(" (%s: %s", path.Base(most.Name), words.Size(most.B))
			if e.Against != nil {
				text += ", against " + words.Size(most.A)
			}
			text += ")"
		}
		clauses = append(clauses, text)
	}
	return callSentence(e, "Heap", clauses)
}
