package link

import (
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
)

func TestWhatNoLinkCanDoIsRefused(t *testing.T) {
	for _, test := range []struct {
		settings Settings
		want     string
	}{
		{Settings{MTU: 100}, "MTU of 100"},
		{Settings{MTU: 100_000}, "MTU of 100000"},
		{Settings{Up: record.Way{DelayNS: int64(-1)}}, "way up: a delay of -1ns"},
		{Settings{Down: record.Way{DelayNS: int64(time.Hour)}}, "way down: a delay of 1h"},
		{Settings{Up: record.Way{DelayNS: int64(1), JitterNS: int64(2)}}, "jitter of 2ns"},
		{Settings{Up: record.Way{Loss: 1}}, "a share of 1 for loss"},
		{Settings{Up: record.Way{Reorder: -0.1}}, "for reordering"},
		{Settings{Up: record.Way{Duplicate: 2}}, "for duplication"},
		{Settings{Up: record.Way{BurstLoss: 0.1}}, "bursts of 0 packets"},
		{Settings{Up: record.Way{BurstLoss: 0.6, BurstPackets: 1}}, "longer runs"},
		{Settings{Up: record.Way{Rate: -1}}, "a rate of -1"},
		{Settings{Up: record.Way{Rate: 1, QueueBytes: 1000}}, "a queue of 1000 bytes"},
	} {
		err := test.settings.check()
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want an error with %q", test.settings, err, test.want)
		}
	}
}

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
		if got := test.settings.linked(); got != test.linked {
			t.Errorf("%+v: linked %v, want %v", test.settings, got, test.linked)
		}
	}
}
