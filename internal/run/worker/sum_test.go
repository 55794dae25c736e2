package worker

import (
	"testing"

	"wirelab.dev/internal/base/sum/sumtest"
)

func TestSumsForgetNothing(t *testing.T) {
	sumtest.CheckPlus(t, ClientResult.Plus, map[string]string{
		"Service": "distributions are merged all at once", "Response": "likewise", "Wait": "likewise", "Messages": "likewise",
		"Named.Stage": "belongs to the name", "Named.Service": "likewise", "Named.Response": "only whether there is one",
		"ByAddress.Stage": "addresses have none", "ByAddress.Service": "distributions are merged all at once", "ByAddress.Response": "only whether there is one", "Pacing.Late": "likewise",
		"Connections.Connect": "likewise", "Connections.Handshake": "likewise", "Connections.FirstByte": "likewise",
		"Intervals": "of grids of their own", "Course": "likewise", "Search": "cannot be one of several",
		"Failures.Example": "the first is kept", "Streams.Ends.Example": "likewise", "Allowance.CPUs": "those of several machines have the same numbers",
		"Census": "either will do", "CPU.Unit": "the same",
		"Slices.TookNS": "the same", "Slices.Pace": "the lab fills it in", "ByConnection.P25NS": "of one connection", "ByConnection.P90NS": "likewise", "CallsWritten": "the measurement has been worked out of each one's file",
	})
}
