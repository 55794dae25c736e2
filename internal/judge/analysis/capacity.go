package analysis

import (
	"math"

	"wirelab.dev/internal/data/record"
)

// capacityOf is the rate that was served in the trials that the judge found to be beyond
// capacity; nil where there is none.
func capacityOf(trials []trial) *Figure {
	return known(trials, func(t trial) float64 {
		for _, c := range t.Checks {
			if c.Name == "overload" && c.Level == record.Invalid && c.Unit == "rps" {
				return number(c.Figure)
			}
		}
		return math.NaN()
	})
}
