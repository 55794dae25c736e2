package analysis

import (
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Setting is a value that differs from a library's default, with the variants of one stack
// that have it.
type Setting struct {
	Stack    string   `json:"stack"`
	Variants []string `json:"variants"` // that have it
	tuning.Setting
}

// settings returns the settings of all trials, each once per stack, in the order of the
// stacks.
func settings(points []*matrix.Point) []Setting {
	var all []Setting
	for _, p := range points {
		for _, t := range p.Trials {
			for _, s := range t.Settings {
				found := lists.FindOrAdd(&all, Setting{Stack: p.Cell.Stack, Setting: s}, func(known Setting) bool {
					return known.Stack == p.Cell.Stack && known.Setting == s
				})
				if !slices.Contains(found.Variants, p.Cell.Variant) {
					found.Variants = append(found.Variants, p.Cell.Variant)
				}
			}
		}
	}
	return all
}

// A MachineLimit is one of the machine's limits, at the trial that came nearest to it.
type MachineLimit struct {
	Name  string `json:"name"`
	Need  int64  `json:"need"`
	Have  int64  `json:"have"`
	Short bool   `json:"short"` // less was to be had than was needed
	Note  string `json:"note"`
	Cell  string `json:"cell"` // which came nearest
}

// limitsOf returns the limits of all machines of a trial.
func limitsOf(r *record.Record) []record.Limit {
	all := slices.Clone(r.Limits)
	if r.Fleet == nil {
		return all
	}
	for i := range r.Fleet.Clients {
		c := &r.Fleet.Clients[i]
		for _, l := range c.Limits {
			l.Note = strings.TrimSuffix("of "+c.Name+"; "+l.Note, "; ")
			all = append(all, l)
		}
	}
	return all
}

// machineLimits returns, for each limit, the trial that came nearest to it.
func machineLimits(points []*matrix.Point) []MachineLimit {
	var all []MachineLimit
	for _, p := range points {
		for _, t := range p.Trials {
			for _, l := range limitsOf(t.Record) {
				here := MachineLimit{Name: l.Name, Need: l.Need, Have: l.Have, Note: l.Note, Cell: p.Cell.Key(), Short: l.Need > l.Have}
				least := lists.FindOrAdd(&all, here, func(known MachineLimit) bool { return known.Name == l.Name })
				if l.Have-l.Need < least.Have-least.Need {
					*least = here
				}
			}
		}
	}
	return all
}
