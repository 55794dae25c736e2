package analysis

import (
	"cmp"
	"math"
	"slices"

	"wirelab.dev/internal/record"
)

// SpreadStep is how many requests took about so long.
type SpreadStep struct {
	US       float64 `json:"us"` // the middle of the step
	Requests int64   `json:"requests"`
}

// spreadSteps is how many steps a spread has: few enough for some hundred requests to fill.
const spreadSteps = 40

// spread is how many requests took how long, in steps of one factor from the fastest to the
// slowest, so that one that stalled is seen as well. A density leaves such out.
func (p pooled) spread() []SpreadStep {
	if p.All.Total() == 0 || len(p.All) < 2 || p.All[0].Value <= 0 {
		return nil
	}
	fastest := p.All[0].Value
	width := math.Log(p.All[len(p.All)-1].Value/fastest) / spreadSteps
	steps := make([]SpreadStep, spreadSteps)
	for i := range steps {
		steps[i].US = short(fastest * math.Exp(width*(float64(i)+0.5)))
	}
	for _, one := range p.All {
		i := min(int(math.Log(one.Value/fastest)/width), spreadSteps-1)
		steps[i].Requests += int64(one.Count)
	}
	return steps
}

// statusesOf are the answers by their status.
func statusesOf(trials []trial) []record.StatusCount {
	counts := map[int]int64{}
	for _, t := range trials {
		for _, s := range t.Statuses {
			counts[s.Status] += s.Count
		}
	}
	all := make([]record.StatusCount, 0, len(counts))
	for status, count := range counts {
		all = append(all, record.StatusCount{Status: status, Count: count})
	}
	slices.SortFunc(all, func(a, b record.StatusCount) int { return cmp.Compare(a.Status, b.Status) })
	return all
}

func shortestWindow(trials []trial) float64 {
	shortest := slices.MinFunc(trials, func(a, b trial) int { return cmp.Compare(a.WindowNS, b.WindowNS) })
	return float64(shortest.WindowNS) / 1e9
}
