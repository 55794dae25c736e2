package advice

import (
	"fmt"

	"wirelab.dev/internal/analysis"
)

// isService reports whether a run loaded a service of the user's own.
func isService(s *analysis.Summary) bool {
	return len(s.Cells) > 0 && s.Cells[0].Stack == analysis.ServiceStack
}

// served says how the service stands with each number of clients.
func served(s *analysis.Summary) []string {
	var lines []string
	for _, p := range partsOf(s) {
		for _, c := range p.cells {
			if !c.IsValid() {
				continue
			}
			line := fmt.Sprintf("%s: %s, %s in the mean", clients(c.Clients), rate(c.Throughput.Value), between(c.ResponseTimes().Mean, micros))
			if p99 := metricOf(analysis.P99, c); p99 != nil {
				line += ", P99 " + micros(p99.Value)
			}
			lines = append(lines, cut(line+"."))
		}
	}
	return ends(lines)
}
