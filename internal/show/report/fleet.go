package report

import (
	"fmt"

	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// fleet says which agents measured, and what each client did.
func (t *loadText) fleet(run *Run) {
	f := run.Summary.Fleet
	if f == nil {
		return
	}
	t.line("fleet", "%s", advice.FleetLine(f, words.LongestLine))
	for i := range run.Summary.Cells {
		for _, c := range run.Summary.Cells[i].FleetClients {
			t.line("fleet", "%s", fleetClientLine(&c))
		}
	}
}

func fleetClientLine(c *matrix.FleetClient) string {
	text := fmt.Sprintf("%s: %s, %s/s", c.Agent, sayCount(c.Clients), perSecond(c.Throughput))
	if c.P99 != nil {
		text += ", P99 " + micros(*c.P99)
	}
	if c.Busy != nil {
		text += ", " + percent(*c.Busy) + " of its CPUs"
	}
	return text + ", " + string(c.Level)
}
