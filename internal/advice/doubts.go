package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/record"
)

func partial(s *analysis.Summary) []string {
	if !s.Partial() {
		return nil
	}
	if s.Done == 0 {
		return []string{fmt.Sprintf("No trial has ended: %d were planned, and there is nothing to judge.", s.Planned)}
	}
	return []string{fmt.Sprintf("This run is partial: %d of %d trials were done, and what follows rests on them alone.", s.Done, s.Planned)}
}

// missesEnds tells whether a cell without a valid trial lies where the advice
// looks: at the lowest or the highest concurrency.
func missesEnds(f *field) bool {
	low, high := f.cells[0].Clients, f.cells[0].Clients
	for _, c := range f.cells {
		low, high = min(low, c.Clients), max(high, c.Clients)
	}
	return slices.ContainsFunc(f.cells, func(c *analysis.Cell) bool {
		return !c.IsValid() && (c.Clients == low || c.Clients == high)
	})
}

// shownCells bounds how many cells a sentence names.
const shownCells = 3

// invalid says what was left out, and why.
func invalid(s *analysis.Summary) []string {
	var names []string
	for i := range s.Cells {
		if c := &s.Cells[i]; !c.IsValid() {
			name := c.Variant
			if c.RequestBytes > 0 || c.ResponseBytes > 0 { // else the workload has no sizes
				name += " at " + size(float64(c.RequestBytes))
			}
			names = append(names, name+" with "+clients(c.Clients))
		}
	}
	out := s.Invalid + s.Failed
	if out == 0 {
		return nil
	}
	why := ""
	if reasons := reasonsOf(s, record.Invalid); len(reasons) > 0 {
		why = ": " + strings.Join(reasons, "; ")
	}
	switch {
	case len(names) == len(s.Cells):
		return []string{"No figure of this run may be used, because no trial is valid" + why + "."}
	case len(names) == 0:
		return []string{fmt.Sprintf("%d of %s are invalid and left out%s.", out, count(s.Done, "trial"), why)}
	}
	if more := len(names) - shownCells; more > 0 {
		names = append(names[:shownCells:shownCells], fmt.Sprintf("%d more", more))
	}
	return []string{fmt.Sprintf("%d of %s are invalid and left out%s. No valid trial is left of %s.", out, count(s.Done, "trial"), why, list(names))}
}

// caution says what the checks found that leaves a trial valid.
func caution(s *analysis.Summary) []string {
	reasons := reasonsOf(s, record.Warning)
	if len(reasons) == 0 {
		return nil
	}
	return []string{"Valid, but to be read with care: " + strings.Join(reasons, "; ") + "."}
}

// shownReasons bounds how many checks a sentence names.
const shownReasons = 3

// reasonsOf are the checks with a level, those of the most trials first, each
// with an example.
func reasonsOf(s *analysis.Summary, level record.Level) []string {
	type reason struct {
		name, example string
		trials        int
	}
	var all []reason
	add := func(name, example string, trials int) {
		i := slices.IndexFunc(all, func(r reason) bool { return r.name == name })
		if i < 0 {
			i = len(all)
			all = append(all, reason{name: name, example: example})
		}
		all[i].trials += trials
	}
	for _, c := range s.Cells {
		for _, f := range c.Findings {
			if f.Level == level {
				add(f.Name, f.Detail, f.Trials)
			}
		}
		if c.Failure != "" && level == record.Invalid {
			add("no measurement", c.Failure, c.Trials-len(measured(c)))
		}
	}
	slices.SortStableFunc(all, func(a, b reason) int { return cmp.Compare(b.trials, a.trials) })
	var texts []string
	for i, r := range all {
		if i == shownReasons {
			texts = append(texts, "and "+count(len(all)-shownReasons, "other check"))
			break
		}
		text := fmt.Sprintf("%s in %s (%s)", r.name, count(r.trials, "trial"), r.example)
		texts = append(texts, text)
	}
	return texts
}

// measured are a cell's trials that have figures, valid or not.
func measured(c analysis.Cell) []analysis.Repeat {
	return slices.DeleteFunc(slices.Clone(c.Repeats), func(r analysis.Repeat) bool { return r.MeanUS == nil })
}
