package levers

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"wirelab.dev/internal/judge/analysis/insight"
)

// A reading is a part of the name of a stage or category, and the cause that it shows.
type reading struct {
	text string
	kind insight.CauseKind
}

// readings maps the names of stages and of categories of CPU time to the cause that they show. The
// first entry whose text is part of the name applies.
var readings = []reading{
	{"collector", insight.ByCollector},
	{"garbage collection", insight.ByCollector},
	{"wait for window", insight.ByWindow},
	{"wait for lock", insight.ByLock},
	{"run queue", insight.ByRunQueue},
	{"schedule", insight.ByWaking},
	{"socket queue", insight.ByConnection},
	{"no CPU", insight.ByNeighbour},
	{"handler: wait", insight.ByHandlerWait},
	{"handler", insight.ByHandler},
	{"the application", insight.ByHandler},
	{"encode", insight.ByEncoding},
	{"decode", insight.ByEncoding},
	{"serialisation", insight.ByEncoding},
	{"page faults", insight.ByFaults},
	{"allocation", insight.ByAllocation},
	{"memory copy", insight.ByCopying},
	{"TLS", insight.ByEncryption},
	{"network stack", insight.ByPackets},
	{"system-call", insight.BySystemCalls},
	{"protocol layer", insight.ByProtocol},
	{"wake", insight.ByWaking},
	{"scheduler", insight.ByWaking},
	{"send request", insight.ByWindow},
	{"send answer", insight.ByWindow},
}

// leastShare is the share of a call's time, or of a difference, from which a part is a suspect.
const leastShare = 0.05

// Suspects returns the causes that an explanation's readings show, the largest first. A nil
// explanation, of a run without probes, has none.
func Suspects(e *insight.Explanation) []insight.CauseKind {
	if e == nil {
		return nil
	}
	sizes := map[insight.CauseKind]float64{}
	for _, figure := range slices.Concat(e.Stages, e.CPU) {
		whole := math.Abs(figure.Whole.Difference())
		for _, part := range figure.Parts {
			i := slices.IndexFunc(readings, func(r reading) bool { return strings.Contains(part.Name, r.text) })
			if i >= 0 && part.IsClear() && part.Difference() > leastShare*whole {
				kind := readings[i].kind
				sizes[kind] = max(sizes[kind], part.Difference())
			}
		}
	}
	var all []insight.CauseKind
	for kind := range sizes {
		all = append(all, kind)
	}
	slices.SortFunc(all, func(a, b insight.CauseKind) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(a, b))
	})
	return all
}
