package link

import (
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
)

func TestTheEngineThatDoesJustWhatIsAskedIsTaken(t *testing.T) {
	rate, delay := record.Way{Rate: 1_000_000}, record.Way{DelayNS: int64(time.Millisecond)}
	all := func(Engine) bool { return true }
	none := func(Engine) bool { return false }
	for _, test := range []struct {
		settings  Settings
		with, not Engine // with and without the kernel's
	}{
		{Settings{MTU: 1500}, Direct, Direct},
		{Settings{Emulated: true}, Frames, Frames},
		{Settings{Up: rate}, TBF, Frames},
		{Settings{Up: rate, Down: rate, Emulated: true}, TBF, Frames},
		{Settings{Down: delay}, Netem, Frames},
		{Settings{Up: rate, Down: delay}, Frames, Frames},
		{Settings{Up: delay, Down: record.Way{DelayNS: int64(1), JitterNS: int64(1)}}, Frames, Frames},
		{Settings{Up: record.Way{DelayNS: int64(1), Loss: 0.1}}, Frames, Frames},
		{Settings{Up: record.Way{Rate: 10_000, BurstLoss: 0.1, BurstPackets: 2}}, Frames, Frames},
		{Settings{Up: record.Way{Duplicate: 0.1}}, Frames, Frames},
		{Settings{Up: record.Way{Reorder: 0.1}}, Frames, Frames},
	} {
		if got := test.settings.chooseEngine(all); got != test.with {
			t.Errorf("%+v, all engines: %s, want %s", test.settings, got, test.with)
		}
		if got := test.settings.chooseEngine(none); got != test.not {
			t.Errorf("%+v, none of the kernel's: %s, want %s", test.settings, got, test.not)
		}
	}
}
