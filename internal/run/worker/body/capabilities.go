package body

import (
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/stack/catalog"
	workloads "wirelab.dev/internal/wire/workload/catalog"
)

// capabilities returns the capabilities of wirelab's own worker.
func capabilities() *worker.Capabilities {
	all := &worker.Capabilities{
		Contract: worker.Contract, Roles: []worker.Role{worker.ServerRole, worker.ClientRole}, Stacks: map[string][]string{},
		Loads:    []scenario.LoadModel{scenario.Closed, scenario.Open, scenario.Burst, scenario.Ramp, scenario.Search},
		Controls: []worker.Control{worker.EndControl, worker.PauseControl, worker.ResumeControl, worker.GoControl, worker.OpenControl},
	}
	for _, s := range catalog.Stacks() {
		keys := []string{}
		for _, o := range s.Info().Options {
			keys = append(keys, o.Key)
		}
		all.Stacks[s.Info().Name] = keys
	}
	for _, w := range workloads.Workloads() {
		all.Workloads = append(all.Workloads, w.Info().Name)
	}
	// Those of every stack; some have resumed and 0rtt, too.
	for _, mode := range []scenario.ConnectionMode{scenario.Shared, scenario.PerWorker, scenario.Pool, scenario.New} {
		all.Connections = append(all.Connections, string(mode))
	}
	return all
}
