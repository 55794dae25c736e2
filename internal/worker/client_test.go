package worker

import (
	"testing"
	"time"

	"wirelab.dev/internal/probe"
)

func TestPacingIsNotTheStacksCost(t *testing.T) {
	const ms = int64(time.Millisecond)
	for _, c := range []struct {
		user, system, spun int64
		want               time.Duration
	}{
		{user: 80 * ms, system: 20 * ms, spun: 0, want: 100 * time.Millisecond},
		{user: 80 * ms, system: 20 * ms, spun: 70 * ms, want: 30 * time.Millisecond},
		{user: 80 * ms, system: 20 * ms, spun: 90 * ms, want: 10 * time.Millisecond}, // the kernel's part of it
		{user: 80 * ms, system: 20 * ms, spun: 101 * ms, want: 0},
	} {
		u := withoutPacing(probe.Window{Usage: probe.Usage{UserNS: c.user, SystemNS: c.system}}, time.Duration(c.spun))
		if u.CPU() != c.want || u.UserNS < 0 || u.SystemNS < 0 {
			t.Errorf("%+v: %d and %d ns are left", c, u.UserNS, u.SystemNS)
		}
	}
}

func TestBadLoads(t *testing.T) {
	for name, l := range map[string]Load{
		"no model":       {},
		"no such model":  {Model: "poisson"},
		"no arrivals":    {Model: "open", RatePerSecond: 1},
		"other arrivals": {Model: "open", RatePerSecond: 1, Arrivals: "uniform"},
	} {
		s := Spec{Client: &ClientSpec{Clients: 1, Load: l}}
		if _, err := s.plan(nil, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
