package table

import (
	"fmt"
	"slices"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// probes prints the system calls that the probes of a load counted, and the requests that its extra
// trials made. The command explain prints the rest.
func (t *loadText) probes(insights []insight.Insight, c *matrix.Cell) {
	trials, requests := 0, int64(0)
	steps := slices.ContainsFunc(insights, func(i insight.Insight) bool { return i.Clients != insights[0].Clients })
	for i := range insights {
		in := &insights[i]
		for _, p := range in.Passes {
			trials, requests = trials+p.Trials, requests+p.Requests
		}
		client, service := in.Client.SyscallsPerCall(), in.Server.SyscallsPerCall()
		if client == nil && service == nil {
			continue
		}
		of := ""
		if cell := in.Cell(); cell.Version() != "" {
			of = ", " + cell.Version()
		}
		if steps {
			of += ", " + words.Clients(in.Clients)
		}
		parts := []string{fmt.Sprintf("client %s, service %s per %s%s", formatOptional(client, units.Number), formatOptional(service, units.Number), callOf(c), of)}
		if partial := in.PartialSyscalls(); partial != "" {
			parts = append(parts, "not all kinds: "+partial)
		}
		t.fact("syscalls", parts...)
	}
	if trials > 0 {
		t.fact("probes", words.Count(trials, "more run"), fmt.Sprintf("%s more %ss, in no other figure", units.Thousands(requests), callOf(c)))
	}
}
