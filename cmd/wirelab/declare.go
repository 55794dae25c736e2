package main

import (
	"encoding/json"
	"fmt"

	"wirelab.dev/internal/record"
	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/stack/catalog"
	workloads "wirelab.dev/internal/workload/catalog"
)

// declarations are what the stacks and workloads of this program say of
// themselves, with the protocols of the scenario's variants.
func declarations(parts []scenario.Part) scenario.Declarations {
	d := scenario.Declarations{Protocols: map[string]string{}}
	for _, s := range catalog.Stacks() {
		d.Stacks = append(d.Stacks, scenario.Declare(s.Info().Name, s.Info().Options))
	}
	for _, w := range workloads.Workloads() {
		declared := scenario.Declare(w.Info().Name, w.Info().Options)
		declared.Sweep = w.Info().Sweep
		d.Workloads = append(d.Workloads, declared)
	}
	for _, p := range parts {
		for _, v := range p.Stacks {
			if s, err := catalog.Find(v.Stack); err == nil { // an old run's may be gone
				d.Protocols[v.String()] = stack.ProtocolFor(s, catalog.OwnOptions(v))
			}
		}
	}
	return d
}

// declareMissing gives the manifest of a run that was made before manifests kept
// declarations those of this program, and of its study.
func declareMissing(m *record.Manifest) error {
	if len(m.Declarations) > 0 || len(m.Scenario) == 0 {
		return nil
	}
	var written scenario.Scenario
	if err := json.Unmarshal(m.Scenario, &written); err != nil {
		return fmt.Errorf("the manifest's scenario: %w", err)
	}
	if study, err := readStudy(m.Name); err == nil {
		written.Report = study.Report
		for _, from := range study.Parts {
			for i := range written.Parts {
				if to := &written.Parts[i]; to.Name == from.Name && len(to.Stacks) == len(from.Stacks) {
					to.Changes = from.Changes
				}
			}
		}
	}
	var err error
	if m.Scenario, err = json.Marshal(written); err != nil {
		return err
	}
	m.Declarations, err = json.Marshal(declarations(written.Parts))
	return err
}
