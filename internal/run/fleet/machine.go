package fleet

import (
	"cmp"
	"context"
	"os"
	"strings"
	"sync"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/excerpt"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	probes "wirelab.dev/internal/machine/probe/catalog"
	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/run/worker"
)

// thisMachine returns the description of this machine, which it computes only once.
var thisMachine = sync.OnceValue(host.Describe)

// newCard makes an agent's card. The caller adds the session and the programs.
func newCard(o *AgentOptions) protocol.Card {
	info := thisMachine()
	cpus := len(o.CPUs)
	if cpus == 0 {
		cpus = len(info.Topology.Allowed)
	}
	return protocol.Card{
		Name: o.Name, Labels: o.Labels, Version: o.Version, Started: time.Now().UTC(),
		Machine: strings.TrimSpace(strings.Join([]string{info.OS, info.Kernel, info.CPUModel}, " ")),
		Boot:    bootID(), CPUs: cpus, Address: o.Listen.String(), Port: o.Port, Limits: host.ReadLimits(), Probes: tryProbes(o.Probes),
	}
}

// maxProbeText bounds each text about a probe, because a card is sent every few seconds.
const maxProbeText = 300

// tryProbes tries which of the allowed probes this machine can run.
func tryProbes(allowed []string) map[string]protocol.CardProbe {
	tried := map[string]protocol.CardProbe{}
	for _, name := range allowed {
		coverage, err := probes.Coverage(name)
		one := protocol.CardProbe{Method: excerpt.Start(coverage.Method, maxProbeText)}
		if err != nil {
			one.Problem = excerpt.Start(err.Error(), maxProbeText)
		}
		tried[name] = one
	}
	return tried
}

// bootID returns the kernel's identifier of the current boot, or else this machine's name.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	name, _ := os.Hostname()
	if err != nil {
		return cmp.Or(name, "unknown")
	}
	return strings.TrimSpace(string(id))
}

// machineWatch observes the worker's machine while the worker lives. nil observes nothing.
type machineWatch struct {
	cpus   []int
	others host.ActivityWatch
	pids   []int

	guard    sync.Mutex       // guards the fields below
	sentinel *worker.Sentinel // nil if no process watches the CPUs for this worker alone
	turns    *turnsSentinel   // nil unless the worker takes turns
}

// A turnsSentinel watches the CPUs for all workers of an agent that take turns. A sentinel of each of
// them would wake up while the others measure.
type turnsSentinel struct {
	endNS int64 // when the turns are over

	guard    sync.Mutex       // guards the fields below
	users    int              // workers that have not ended
	sentinel *worker.Sentinel // nil before it starts, and after it has stopped
	pids     []int            // of the sentinel
	seen     []probe.SentinelResult
}

// start starts the sentinel, unless all its users have ended. families are the users' processes.
func (s *turnsSentinel) start(program []string, in host.StartOptions, families []int) {
	s.guard.Lock()
	defer s.guard.Unlock()
	if s.users > 0 {
		s.sentinel = worker.StartSentinel(program, in, watchedCPUs(in.CPUs, families))
		s.pids = s.sentinel.PIDs()
	}
}

// leave is called when a user ends. The first one that ends after the turns stops the sentinel for all.
func (s *turnsSentinel) leave() (seen []probe.SentinelResult, pids []int, cost time.Duration) {
	s.guard.Lock()
	defer s.guard.Unlock()
	if s.users--; s.sentinel != nil && (s.users == 0 || clock.Now() >= s.endNS) {
		s.seen, cost = s.sentinel.Stop(context.Background())
		s.sentinel = nil
	}
	return s.seen, s.pids, cost
}

// join replaces the worker's own sentinel. It returns the latter, which the caller must stop.
func (w *machineWatch) join(s *turnsSentinel) (own *worker.Sentinel) {
	w.guard.Lock()
	defer w.guard.Unlock()
	if w.turns != nil { // the order came twice
		return nil
	}
	s.guard.Lock()
	s.users++
	s.guard.Unlock()
	own, w.sentinel, w.turns = w.sentinel, nil, s
	return own
}

func watchedCPUs(cpus, family []int) (watch []probe.SentinelCPU) {
	for _, cpu := range cpus {
		watch = append(watch, probe.SentinelCPU{CPU: cpu, CPUs: len(cpus), PIDs: family})
	}
	return watch
}

func newMachineWatch(cpus []int) *machineWatch {
	return &machineWatch{cpus: cpus, others: host.StartActivityWatch()}
}

// startSentinel starts a process that watches the worker's CPUs, if the worker has CPUs of its own. A
// client of a block joins a turnsSentinel later.
func (w *machineWatch) startSentinel(program []string, pid, nice int, block bool) {
	if w == nil {
		return
	}
	w.pids = []int{os.Getpid(), pid}
	if len(w.cpus) == 0 || block {
		return
	}
	w.sentinel = worker.StartSentinel(program, host.StartOptions{CPUs: w.cpus, Nice: nice}, watchedCPUs(w.cpus, host.ReadProcessTable().Family(pid)))
	w.pids = append(w.pids, w.sentinel.PIDs()...)
}

// stop ends the watch and returns its readings. took is the CPU time that the worker used.
func (w *machineWatch) stop(took time.Duration) *worker.MachineReadings {
	if w == nil {
		return nil
	}
	seen := &worker.MachineReadings{Boot: bootID(), CPUs: w.cpus, PIDs: w.pids}
	var cost time.Duration
	w.guard.Lock()
	if w.turns != nil {
		var pids []int
		seen.Watched, pids, cost = w.turns.leave()
		seen.PIDs = append(seen.PIDs, pids...)
	} else {
		seen.Watched, cost = w.sentinel.Stop(context.Background())
	}
	w.guard.Unlock()
	whole, own := w.others.FillHostState(&seen.State, took+cost)
	seen.WholeNS, seen.OwnNS = int64(whole), int64(own)
	return seen
}
