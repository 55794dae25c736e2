package advice

import (
	"fmt"
	"strings"

	"wirelab.dev/internal/analysis"
)

// cost says who pays: CPU time a request, at the client and at the server. It is
// told for the most clients, where a system would be sized.
func cost(f *field) []string {
	var clauses []string
	for _, bytes := range f.endSizes() {
		var texts []string
		least, leastSum := "", 0.0
		for _, v := range f.variants {
			c := f.cell(v, spot{bytes, f.most()})
			if c == nil || c.ClientCPU == nil || c.ServerCPU == nil {
				continue
			}
			if sum := sumCPU(c); least == "" || sum < leastSum {
				least, leastSum = v, sum
			}
			texts = append(texts, fmt.Sprintf("%s %s + %s", v, micros(c.ClientCPU.Value), micros(c.ServerCPU.Value)))
		}
		if len(texts) == 0 {
			continue
		}
		clause := atSize(bytes) + list(texts)
		if len(texts) > 1 {
			clause += ", so " + least + " costs least"
		}
		clauses = append(clauses, clause)
	}
	if len(clauses) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("CPU time a request, client + server, with %s: %s.", clients(f.most()), strings.Join(clauses, "; "))}
}

func sumCPU(c *analysis.Cell) float64 { return c.ClientCPU.Value + c.ServerCPU.Value }
