package worker

import (
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack/catalog"
	workloads "wirelab.dev/internal/wire/workload/catalog"
)

// capabilities are those of wirelab's own worker.
func capabilities() *Capabilities {
	all := &Capabilities{
		Contract: Contract, Roles: []Role{ServerRole, ClientRole}, Stacks: map[string][]string{},
		Loads:    []string{closedLoop, openLoop, burst, ramp, search},
		Controls: []Control{EndControl, PauseControl, ResumeControl, GoControl, OpenControl},
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
