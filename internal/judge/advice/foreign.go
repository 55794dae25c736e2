package advice

import (
	"fmt"
	"path"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// foreignAnswer repeats what other programs measured, and gives no advice on it.
func foreignAnswer(s *analysis.Summary) []string {
	var lines []string
	single := false
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.IsValid() {
			lines = append(lines, foreignLine(c))
			single = single || c.Valid < matrix.LeastTrials
		}
	}
	lines = ends(lines)
	if single {
		lines = append(lines, fmt.Sprintf("Do: import %d files or more of one cell together: then there are intervals, and verdicts in diff.", matrix.LeastTrials))
	}
	trust := "Trust: "
	if against := reasons(s, record.Invalid); len(against) > 0 {
		trust += fmt.Sprintf("%d of %s invalid (%s); ", against[0].trials, count(s.Done, "trial"), against[0].name)
	}
	trust += fmt.Sprintf("figures of %s, not of wirelab: no load generator, server or machine was watched.", list(s.Foreign))
	return append(lines, cut(trust))
}

func foreignLine(c *matrix.Cell) string {
	line := c.Tool + ", " + path.Base(c.Workload)
	if c.Clients > 0 {
		line += ", " + clients(c.Clients)
	}
	line += fmt.Sprintf(": %s in the mean", between(c.Service.Mean, micros))
	if p99 := metricOf(matrix.P99, c); p99 != nil {
		line += ", P99 " + micros(p99.Value)
	}
	return cut(line + ", " + rate(c.Throughput.Value) + ".")
}

// whose says that these are no figures of wirelab's.
func whose(s *analysis.Summary) string {
	return fmt.Sprintf("%s measured this, and wirelab read the files: nothing is advised on it. wirelab diff compares it with another run.", list(s.Foreign))
}
