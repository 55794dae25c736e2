package fleet

import (
	"os"
	"testing"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/machine/probe"
)

// An agent's health is the worst that is known about it.
func TestHealth(t *testing.T) {
	busy, idle := 0.97, 0.3
	for _, test := range []struct {
		role string
		cpu  *float64
		seen observedAgent
		want live.Health
		text string
	}{
		{"client", &idle, observedAgent{silent: 2 * time.Second, others: 0.1, clockError: time.Millisecond, window: time.Second}, live.Fine, ""},
		{"client", nil, observedAgent{}, live.Fine, ""},
		{"client", &busy, observedAgent{}, live.Limiting, "at its limit: all of its CPUs are busy"},
		{"server", &busy, observedAgent{}, live.Fine, ""}, // a server may be busy
		{"client", &busy, observedAgent{others: 0.31}, live.Disturbed, "other programs use 31 % of its machine"},
		{"server", nil, observedAgent{others: 0.31, clockError: 11 * time.Millisecond, window: time.Second}, live.ClockOff, "clock error up to 11 ms"},
		{"server", nil, observedAgent{clockError: time.Second}, live.Fine, ""}, // the window has no length in time
		{"client", &busy, observedAgent{silent: 3900 * time.Millisecond, others: 1}, live.Silent, "silent for 3 s"},
		{"client", &idle, observedAgent{lost: true, silent: time.Minute}, live.Lost, "lost"},
	} {
		if got, text := judgeHealth(&live.Agent{Role: test.role, CPU: test.cpu}, test.seen); got != test.want || text != test.text {
			t.Errorf("%s, %+v: %d %q, want %d %q", test.role, test.seen, got, text, test.want, test.text)
		}
	}
}

// What an agent says about itself is checked: an impossible value changes nothing.
func TestForgedUse(t *testing.T) {
	h := &agentFigures{}
	h.setUse(&cpuUse{Workers: 400, Own: 200, Busy: 500})
	h.addInterval(100, int64(2*time.Second))
	for _, forged := range []*cpuUse{nil, {Workers: -1}, {Own: 1001}, {Busy: 1 << 40}} {
		h.setUse(forged)
	}
	h.addInterval(-1, 1)
	h.addInterval(1, 0)
	shown := live.Agent{Role: "client"}
	if others := h.describe(&shown, 200); *shown.CPU != 0.4 || *shown.Rate != 50 || others != 0.3 {
		t.Errorf("CPU %v, rate %v, others %v", *shown.CPU, *shown.Rate, others)
	}
	if others := h.describe(&shown, 900); others != 0 {
		t.Errorf("agents that say that they used more than all: others %v", others)
	}
}

// The meter finds the CPU time that this process spends between two readings.
func TestCPUMeter(t *testing.T) {
	own := func() time.Duration {
		used, err := probe.ReadProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return used.CPU()
	}
	var m cpuMeter
	began, before := clock.Now(), own()
	if first := m.read(2, []int{os.Getpid()}, nil); first != nil {
		t.Fatalf("the first reading is %+v: there is nothing to compare it with", first)
	}
	const planted = 200 * time.Millisecond
	inner, innerAt := own(), clock.Now()
	for own() < inner+planted {
		continue
	}
	spent, took := own()-inner, clock.Now()-innerAt
	got := m.read(2, []int{os.Getpid()}, []int{1 << 30}) // a process that has ended costs nothing
	all, whole := own()-before, clock.Now()-began
	if got == nil {
		t.Fatal("there is no second reading")
	}
	// The readings lie between the two pairs of instants. A share is rounded down to a thousandth.
	least, most := float64(spent)/float64(2*whole)*thousandths-1, float64(all)/float64(2*took)*thousandths
	if share := float64(got.Workers); share < least || share > most {
		t.Errorf("the workers' share is %v thousandths, want %v to %v", share, least, most)
	}
	if got.Own == 0 || got.Own > thousandths || got.Busy == 0 {
		t.Errorf("the machine's shares are %+v", got)
	}
}
