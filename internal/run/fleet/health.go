package fleet

import (
	"fmt"
	"sync"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/judge/check"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

// A cpuUse says how an agent's machine spent its CPU time since the last renewal of the lease. The
// agent sends it in its answer to the renewal, so it costs no message. All shares are in thousandths.
type cpuUse struct {
	Workers int `json:"w"` // share of the agent's CPUs that its workers used
	Own     int `json:"o"` // share of the machine that the agent, its workers and its sentinel used
	Busy    int `json:"b"` // share of the machine that all programs used
}

const thousandths = 1000

// A cpuMeter reads the CPU time of an agent's machine. Only the goroutine that handles orders uses it.
type cpuMeter struct {
	at      int64
	machine host.Activity
	own     map[int]time.Duration // CPU time of each process at the last reading
}

// read returns the use since the last reading. It returns nil at the first reading, and if it cannot
// read the machine's CPU times.
func (m *cpuMeter) read(cpus int, workers, others []int) *cpuUse {
	machine, err := host.ReadActivity()
	if err != nil {
		return nil
	}
	now, own := clock.Now(), map[int]time.Duration{}
	spent := func(pids []int) (sum time.Duration) {
		for _, pid := range pids {
			if used, err := probe.ReadProcess(pid); err == nil { // otherwise the process has ended
				own[pid] = used.CPU()
				sum += own[pid] - m.own[pid]
			}
		}
		return sum
	}
	byWorkers := spent(workers)
	all := byWorkers + spent(others)
	before := *m
	m.at, m.machine, m.own = now, machine, own
	busy := machine.Since(before.machine, 0)
	if before.at == 0 || now <= before.at || busy.Whole <= 0 {
		return nil
	}
	share := func(time, of float64) int { return int(min(1, time/of) * thousandths) }
	return &cpuUse{
		Workers: share(float64(byWorkers), float64(now-before.at)*float64(cpus)),
		Own:     share(float64(all), float64(busy.Whole)), Busy: share(busy.OthersBusyShare, 1),
	}
}

// silentFrom is the time without a message from which an agent is shown as silent. An agent that runs
// a client, or whose lease is renewed, sends a message at least every two seconds.
const silentFrom = 3 * time.Second

// maxRateAge is the time for which the rate of the last interval is shown.
const maxRateAge = 5 * time.Second

// agentFigures holds what an agent has told about itself. An agent may lie about itself only.
type agentFigures struct {
	lock   sync.Mutex // guards the fields below
	use    *cpuUse    // nil if unknown
	rate   float64    // requests per second of the client's last interval
	rateAt time.Time
}

// setUse stores the latest use. It ignores impossible values.
func (f *agentFigures) setUse(u *cpuUse) {
	if u == nil || min(u.Workers, u.Own, u.Busy) < 0 || max(u.Workers, u.Own, u.Busy) > thousandths {
		return
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	f.use = u
}

// addInterval stores the rate of an interval. It ignores impossible values.
func (f *agentFigures) addInterval(ended, tookNS int64) {
	if ended < 0 || tookNS <= 0 {
		return
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	f.rate, f.rateAt = float64(ended)/time.Duration(tookNS).Seconds(), time.Now()
}

// ownShare returns the share of the machine that the agent used, in thousandths.
func (f *agentFigures) ownShare() int {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.use == nil {
		return 0
	}
	return f.use.Own
}

// describe fills in the agent's rate and CPU share. It returns the share of the machine that other
// programs use. own is the share that all of the fleet's agents on the machine use, in thousandths.
func (f *agentFigures) describe(to *live.Agent, own int) (others float64) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if to.Role == "client" && !f.rateAt.IsZero() && time.Since(f.rateAt) < maxRateAge {
		to.Rate = new(f.rate)
	}
	if f.use == nil {
		return 0
	}
	to.CPU = new(float64(f.use.Workers) / thousandths)
	return max(0, float64(f.use.Busy-own)/thousandths)
}

// An observedAgent holds what the controller knows about an agent's health.
type observedAgent struct {
	lost       bool
	silent     time.Duration
	others     float64 // share of the machine that other programs use
	clockError time.Duration
	window     time.Duration // 0 if a number of requests ends the window
}

// judgeHealth uses the bounds of the checks that judge the trial at its end.
func judgeHealth(a *live.Agent, o observedAgent) (live.Health, string) {
	limits := check.DefaultLimits()
	switch {
	case o.lost:
		return live.Lost, "lost"
	case o.silent >= silentFrom:
		return live.Silent, fmt.Sprintf("silent for %d s", int(o.silent.Seconds()))
	case o.window > 0 && float64(o.clockError) > limits.Apart.Warning*float64(o.window):
		return live.ClockOff, "clock error up to " + units.Time(float64(o.clockError))
	case o.others > limits.Beside:
		return live.Disturbed, fmt.Sprintf("other programs use %.0f %% of its machine", 100*o.others)
	case a.Role == "client" && a.CPU != nil && *a.CPU >= limits.Saturated:
		return live.Limiting, "at its limit: all of its CPUs are busy"
	}
	return live.Fine, ""
}
