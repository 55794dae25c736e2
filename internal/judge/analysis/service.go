package analysis

import (
	"cmp"
	"math"
	"slices"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
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
		steps[i].Requests += one.Count
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

const (
	// leastStandstill is how long hardly anything must be answered to be told, in seconds.
	leastStandstill = 0.05
	// standing is the share of the usual rate below which a service stands still, and
	// standingCalls how many calls a stretch usually has for that not to be chance.
	standing, standingCalls = 0.1, 10
)

// Standstills are the times within the window in which hardly anything was answered: how
// many, and about how long the longest took, in seconds.
func (c *Cell) Standstills() (count int, longest float64) {
	var window []CoursePoint
	for _, point := range c.Course {
		if point.Seconds > 0 {
			window = append(window, point)
		}
	}
	if len(window) < leastStretches {
		return 0, 0
	}
	rates := make([]float64, len(window))
	for i, point := range window {
		rates[i] = point.Throughput
	}
	each, usual := window[1].Seconds-window[0].Seconds, stats.Median(rates)
	if usual*each < standingCalls {
		return 0, 0
	}
	for took, i := 0.0, 0; i <= len(rates); i++ {
		if i < len(rates) && rates[i] < standing*usual {
			took += each
			continue
		}
		if took >= leastStandstill {
			count, longest = count+1, max(longest, took)
		}
		took = 0
	}
	return count, longest
}
