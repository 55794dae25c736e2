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
	"wirelab.dev/internal/run/worker"
)

// ownMachine is described once: nothing of it that is told changes.
var ownMachine = sync.OnceValue(host.Describe)

// describe makes an agent's card, without its session and programs.
func describe(o *AgentOptions) Card {
	info := ownMachine()
	cpus := len(o.CPUs)
	if cpus == 0 {
		cpus = len(info.Topology.Allowed)
	}
	return Card{
		Name: o.Name, Labels: o.Labels, Version: o.Version, Started: time.Now().UTC(),
		Machine: strings.TrimSpace(strings.Join([]string{info.OS, info.Kernel, info.CPUModel}, " ")),
		Boot:    bootID(), CPUs: cpus, Address: o.Listen.String(), Limits: host.ReadLimits(),
	}
}

// bootID is what the kernel calls its present life; where it does not say, this machine's name.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	name, _ := os.Hostname()
	if err != nil {
		return cmp.Or(name, "unknown")
	}
	return strings.TrimSpace(string(id))
}

// machineWatch sees what a worker's machine does while the worker lives; nil sees nothing.
type machineWatch struct {
	cpus       []int
	neighbours worker.Neighbours
	sentinel   *worker.Process // nil: none watches
	pids       []int
}

func watchMachine(cpus []int) *machineWatch {
	return &machineWatch{cpus: cpus, neighbours: worker.WatchNeighbours()}
}

// guard has a process of its own watch the worker's CPUs, where the worker has been given some.
func (w *machineWatch) guard(program []string, pid, nice int) {
	if w == nil {
		return
	}
	w.pids = []int{os.Getpid(), pid}
	if len(w.cpus) == 0 {
		return
	}
	spec := worker.Spec{Contract: worker.Contract, Role: worker.SentinelRole}
	family := host.TakeCensus().Family(pid)
	for _, cpu := range w.cpus {
		spec.Watch = append(spec.Watch, probe.SentinelCPU{CPU: cpu, CPUs: len(w.cpus), PIDs: family})
	}
	process, err := worker.Start(worker.Launch{Name: "sentinel", Command: program, In: host.Surroundings{CPUs: w.cpus, Nice: nice}, Spec: spec})
	if err == nil { // otherwise the record says that nobody watched
		w.sentinel = process
		w.pids = append(w.pids, process.PID())
	}
}

// sentinelPatience limits the wait for a sentinel's result, which it prints at once.
const sentinelPatience = 5 * time.Second

// stop ends the watch and says what it saw. took is the CPU time of the worker.
func (w *machineWatch) stop(took time.Duration) *worker.Machine {
	if w == nil {
		return nil
	}
	seen := &worker.Machine{Boot: bootID(), CPUs: w.cpus, PIDs: w.pids}
	if w.sentinel != nil {
		if err := w.sentinel.Stop(); err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), sentinelPatience)
			defer cancel()
			if result, err := w.sentinel.Result(ctx); err == nil {
				seen.Watched = result.Watched
			}
		}
		took += w.sentinel.CPU()
	}
	whole, own := w.neighbours.Fill(&seen.State, took)
	seen.WholeNS, seen.OwnNS = int64(whole), int64(own)
	return seen
}
