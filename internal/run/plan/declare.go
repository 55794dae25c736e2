package plan

import (
	"encoding/json"
	"fmt"
	"slices"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
	workloads "wirelab.dev/internal/wire/workload/catalog"
)

// declarations returns what the stacks and workloads of this program declare, and the protocols
// of the scenario's variants.
func declarations(parts []scenario.Part) scenario.Declarations {
	d := scenario.Declarations{Protocols: map[string]string{}}
	for _, s := range catalog.Stacks() {
		d.Stacks = append(d.Stacks, scenario.Declare(s.Info().Name, catalog.Options(s)))
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

// DeclareMissing adds this program's declarations, and those of its study, to the
// manifest of a run from before manifests kept them.
func (l Library) DeclareMissing(m *record.Manifest) error {
	if len(m.Declarations) > 0 || len(m.Scenario) == 0 {
		return nil
	}
	var written scenario.Scenario
	if err := json.Unmarshal(m.Scenario, &written); err != nil {
		return fmt.Errorf("the manifest's scenario: %w", err)
	}
	if study, err := l.Study(m.Name); err == nil {
		written.Report = study.Report
		for _, from := range study.Parts {
			for i := range written.Parts {
				if to := &written.Parts[i]; to.Name == from.Name && changeAlike(to.Stacks, from.Stacks, len(from.Changes)) {
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

// changeAlike reports whether the first changes lead through the same variants in both lists.
func changeAlike(a, b []scenario.Variant, changes int) bool {
	n := changes + 1 // a list may have more behind them
	return len(a) >= n && len(b) >= n && slices.EqualFunc(a[:n], b[:n], func(x, y scenario.Variant) bool { return x.String() == y.String() })
}
