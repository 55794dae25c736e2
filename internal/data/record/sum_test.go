package record

import (
	"testing"

	"wirelab.dev/internal/base/sum/sumtest"
)

func TestSumsForgetNothing(t *testing.T) {
	sumtest.CheckPlus(t, Measurement.Plus, map[string]string{
		"Service": "distributions are merged all at once", "Response": "likewise", "Wait": "likewise", "Messages": "likewise",
		"Named.Stage": "belongs to the name", "Named.Service": "likewise", "Named.Response": "only whether there is one",
		"ByAddress.Stage": "addresses have none", "ByAddress.Service": "distributions are merged all at once", "ByAddress.Response": "only whether there is one",
		"ByConnection.P25NS": "of one connection", "ByConnection.P90NS": "likewise", "Slices.TookNS": "the same", "Slices.Pace": "of the whole block", "Pacing.Late": "likewise",
		"Intervals": "of grids of their own", "Course": "likewise", "Search": "cannot be one of several",
		"Streams.Ends.Example": "the first is kept",
	})
	sumtest.CheckPlus(t, Slice.Plus, map[string]string{"AtNS": "the key", "TookNS": "the same", "Pace": "of the whole block"})
	sumtest.CheckPlus(t, ErrorCount.Plus, map[string]string{"Example": "the first is kept", "Class": "the key", "Code": "the key"})
	sumtest.CheckPlus(t, Allocations.Plus, nil)
	sumtest.CheckPlus(t, Stacks.Plus, map[string]string{"Unit": "the same"})
	sumtest.CheckPlus(t, Seen.Plus, map[string]string{"Stacks.Unit": "the same"})
}
