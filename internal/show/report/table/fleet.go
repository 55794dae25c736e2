package table

import (
	"fmt"

	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// fleet says which agents measured, and what each client did.
func (t *loadText) fleet(s *analysis.Summary) {
	f := s.Fleet
	if f == nil {
		return
	}
	t.line("fleet", "%s", advice.FleetLine(f, words.LongestLine))
	for i := range s.Cells {
		for _, c := range s.Cells[i].FleetClients {
			t.line("fleet", "%s", fleetClientLine(&c))
		}
	}
}

func fleetClientLine(c *matrix.FleetClient) string {
	text := fmt.Sprintf("%s: %s, %s/s", c.Agent, sayCount(c.Clients), format.PerSecond(c.Throughput))
	if c.P99 != nil {
		text += ", P99 " + format.Micros(*c.P99)
	}
	if c.Busy != nil {
		text += ", " + format.Percent(*c.Busy) + " of its CPUs"
	}
	return text + ", " + string(c.Level)
}
