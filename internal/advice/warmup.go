package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/analysis"
)

// warmUp says how much warm-up would have been enough. Parts that began cold
// show it best, so where there are some they alone are asked.
func warmUp(s *analysis.Summary) []string {
	needs := slices.Clone(s.WarmUps)
	if slices.ContainsFunc(needs, func(n analysis.WarmUpNeed) bool { return beganCold(s, n) }) {
		needs = slices.DeleteFunc(needs, func(n analysis.WarmUpNeed) bool { return !beganCold(s, n) })
	}
	trials, settled := 0, 0
	for _, n := range needs {
		trials, settled = trials+n.Trials, settled+n.Settled
	}
	if trials == 0 {
		return nil
	}
	needs = slices.DeleteFunc(needs, func(n analysis.WarmUpNeed) bool { return n.Settled == 0 })
	if len(needs) == 0 {
		return []string{"No trial became steady: the figures may still have been on their way."}
	}
	slices.SortStableFunc(needs, func(a, b analysis.WarmUpNeed) int { return cmp.Compare(a.Needed.Value, b.Needed.Value) })
	middle, last := needs[len(needs)/2], needs[len(needs)-1]
	slowest := []string{last.Variant}
	if last.RequestBytes > 0 { // else the workload has no sizes
		slowest = append(slowest, size(float64(last.RequestBytes)))
	}
	text := fmt.Sprintf("A warm-up of %s and %s requests would have been enough in the median cell, and of %s and %s in the slowest (%s, %s)",
		millis(middle.Needed.Value), number(middle.NeededCalls.Value), millis(last.Needed.Value), number(last.NeededCalls.Value),
		strings.Join(slowest, ", "), clients(last.Clients))
	if settled < trials {
		text += fmt.Sprintf("; %d of %d trials never became steady", trials-settled, trials)
	}
	return []string{text + firstMoments(needs) + "."}
}

// beganCold tells whether the window of a cell began with its first request.
func beganCold(s *analysis.Summary, n analysis.WarmUpNeed) bool {
	return slices.ContainsFunc(s.Cells, func(c analysis.Cell) bool {
		return c.Part == n.Part && c.Variant == n.Variant && c.RequestBytes == n.RequestBytes && c.Clients == n.Clients && c.WarmUp.Value == 0
	})
}

func firstMoments(needs []analysis.WarmUpNeed) string {
	shown := slices.DeleteFunc(slices.Clone(needs), func(n analysis.WarmUpNeed) bool { return n.FirstOver == nil })
	if len(shown) == 0 {
		return ""
	}
	slices.SortStableFunc(shown, func(a, b analysis.WarmUpNeed) int { return cmp.Compare(a.FirstOver.Value, b.FirstOver.Value) })
	middle, last := shown[len(shown)/2], shown[len(shown)-1]
	return fmt.Sprintf("; calls of the first 100 ms took %s times as long as settled ones in the median cell, and %s times at most",
		number(middle.FirstOver.Value), number(last.FirstOver.Value))
}
