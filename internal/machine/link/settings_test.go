package link

import (
	"testing"

	"wirelab.dev/internal/data/record"
)

func TestWhatAsksForALink(t *testing.T) {
	for _, test := range []struct {
		settings Settings
		linked   bool
	}{
		{Settings{}, false},
		{Settings{Ports: 10, Seed: 1, Up: record.Way{QueueBytes: 5000}}, false},
		{Settings{Emulated: true}, true},
		{Settings{MTU: 1500}, true},
		{Settings{Up: record.Way{Rate: 1}}, true},
		{Settings{Down: record.Way{BurstLoss: 0.1, BurstPackets: 2}}, true},
	} {
		if got := test.settings.needsLink(); got != test.linked {
			t.Errorf("%+v: linked %v, want %v", test.settings, got, test.linked)
		}
	}
}
