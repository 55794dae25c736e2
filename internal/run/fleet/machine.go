package fleet

import (
	"cmp"
	"context"
	"os"
	"strings"
	"sync"
	"time"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
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
		Boot:    bootID(), CPUs: cpus, Address: o.Listen.String(), Limits: host.ReadLimits(),
	}
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
	cpus     []int
	others   host.ActivityWatch
	sentinel *worker.Sentinel // nil if no process watches the CPUs
	pids     []int
}

func newMachineWatch(cpus []int) *machineWatch {
	return &machineWatch{cpus: cpus, others: host.StartActivityWatch()}
}

// startSentinel starts a process that watches the worker's CPUs, if the worker has CPUs of its own.
func (w *machineWatch) startSentinel(program []string, pid, nice int) {
	if w == nil {
		return
	}
	w.pids = []int{os.Getpid(), pid}
	if len(w.cpus) == 0 {
		return
	}
	var watch []probe.SentinelCPU
	family := host.ReadProcessTable().Family(pid)
	for _, cpu := range w.cpus {
		watch = append(watch, probe.SentinelCPU{CPU: cpu, CPUs: len(w.cpus), PIDs: family})
	}
	w.sentinel = worker.StartSentinel(program, host.StartOptions{CPUs: w.cpus, Nice: nice}, watch)
	w.pids = append(w.pids, w.sentinel.PIDs()...)
}

// stop ends the watch and returns its readings. took is the CPU time that the worker used.
func (w *machineWatch) stop(took time.Duration) *worker.MachineReadings {
	if w == nil {
		return nil
	}
	seen := &worker.MachineReadings{Boot: bootID(), CPUs: w.cpus, PIDs: w.pids}
	var cost time.Duration
	seen.Watched, cost = w.sentinel.Stop(context.Background())
	whole, own := w.others.FillHostState(&seen.State, took+cost)
	seen.WholeNS, seen.OwnNS = int64(whole), int64(own)
	return seen
}
