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

// ownMachine describes this machine, once: the description does not change.
var ownMachine = sync.OnceValue(host.Describe)

// describe makes an agent's card, without its session and programs.
func describe(o *AgentOptions) protocol.Card {
	info := ownMachine()
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

// bootID returns the kernel's identifier of this boot, or this machine's name if there is none.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	name, _ := os.Hostname()
	if err != nil {
		return cmp.Or(name, "unknown")
	}
	return strings.TrimSpace(string(id))
}

// machineWatch observes a worker's machine while the worker lives; nil observes nothing.
type machineWatch struct {
	cpus     []int
	others   host.Watch
	sentinel *worker.Sentinel // nil: the CPUs are not watched
	pids     []int
}

func watchMachine(cpus []int) *machineWatch {
	return &machineWatch{cpus: cpus, others: host.StartWatch()}
}

// guard starts a process that watches the worker's CPUs, if the worker has CPUs of its own.
func (w *machineWatch) guard(program []string, pid, nice int) {
	if w == nil {
		return
	}
	w.pids = []int{os.Getpid(), pid}
	if len(w.cpus) == 0 {
		return
	}
	var watch []probe.SentinelCPU
	family := host.TakeCensus().Family(pid)
	for _, cpu := range w.cpus {
		watch = append(watch, probe.SentinelCPU{CPU: cpu, CPUs: len(w.cpus), PIDs: family})
	}
	w.sentinel = worker.StartSentinel(program, host.Surroundings{CPUs: w.cpus, Nice: nice}, watch)
	w.pids = append(w.pids, w.sentinel.PIDs()...)
}

// stop ends the watch and returns its findings. took is the CPU time of the worker.
func (w *machineWatch) stop(took time.Duration) *worker.Machine {
	if w == nil {
		return nil
	}
	seen := &worker.Machine{Boot: bootID(), CPUs: w.cpus, PIDs: w.pids}
	var cost time.Duration
	seen.Watched, cost = w.sentinel.Stop(context.Background())
	whole, own := w.others.Fill(&seen.State, took+cost)
	seen.WholeNS, seen.OwnNS = int64(whole), int64(own)
	return seen
}
