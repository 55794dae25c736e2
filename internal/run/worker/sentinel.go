package worker

import (
	"context"
	"time"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

// A Sentinel watches CPUs from a process of its own. A nil one watches nothing: a reader of the
// record then finds that nobody watched.
type Sentinel struct{ process *Process }

// sentinelPatience limits the wait for a sentinel's result, which it prints at once.
const sentinelPatience = 5 * time.Second

// StartSentinel begins to watch with a process of wirelab's own program. It returns nil if that
// does not start.
func StartSentinel(program []string, in host.Surroundings, watch []probe.SentinelCPU) *Sentinel {
	process, err := Start(Launch{
		Name: "sentinel", Command: program, In: in,
		Spec: Spec{Contract: Contract, Role: SentinelRole, Watch: watch},
	})
	if err != nil {
		return nil
	}
	return &Sentinel{process: process}
}

// PIDs returns the sentinel's process.
func (s *Sentinel) PIDs() []int {
	if s == nil {
		return nil
	}
	return []int{s.process.PID()}
}

// Stop ends the watch. It returns what was seen, and the CPU time that watching took.
func (s *Sentinel) Stop(ctx context.Context) (seen []probe.Watched, cost time.Duration) {
	if s == nil {
		return nil, 0
	}
	if ctx.Err() != nil {
		s.process.Kill()
		return nil, 0
	}
	err := s.process.Stop()
	cost = s.process.CPU()
	if err != nil {
		return nil, cost
	}
	ctx, cancel := context.WithTimeout(ctx, sentinelPatience)
	defer cancel()
	if result, err := s.process.Result(ctx); err == nil {
		seen = result.Watched
	}
	return seen, cost
}
