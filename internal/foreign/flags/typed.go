package flags

import (
	"cmp"
	"slices"
	"strings"
)

// Typed reads the arguments behind wirelab load as a user of another load generator types
// them, and returns arguments that wirelab load parses. It leaves unknown flags, and a line that
// is wirelab's own, as they are.
func (all Tools) Typed(arguments []string) (translated, notes []string, err error) {
	if len(arguments) > MaxWords || slices.Contains(arguments, "--from") || slices.ContainsFunc(arguments, isFrom) {
		return arguments, nil, nil
	}
	readings := all.read(arguments)
	best := readings[0]
	if best.tool == Own {
		return arguments, nil, nil
	}
	if best.err != nil {
		return nil, best.notes, best.err
	}
	for _, other := range readings[1:] {
		if line := best.against(other); line != "" {
			return best.arguments, append(best.notes, line), nil
		}
	}
	return best.arguments, best.notes, nil
}

func isFrom(argument string) bool { return strings.HasPrefix(argument, "--from=") }

// A reading holds a line as parsed with one tool's flags.
type reading struct {
	*Command
	misfits, foreign int // flags that do not fit; flags of wirelab, which the tool lacks
	arguments        []string
	err              error
}

// read parses a line with each tool's flags. The best reading comes first.
func (all Tools) read(arguments []string) []reading {
	readings := []reading{}
	for _, t := range append(Tools{Own}, all...) {
		also := Own
		if t == Own {
			also = nil
		} else if t.OnlyFiles {
			continue
		}
		l := t.scan(arguments, also)
		r := reading{}
		for _, f := range l.found {
			if f.misfit != "" {
				r.misfits++
			} else if f.owned {
				r.foreign++
			}
		}
		r.Command, r.err = t.translate(l, false)
		r.arguments = r.Command.Arguments()
		if r.misfit {
			r.misfits++
		}
		if t == Own {
			r.foreign = -1 // before all others, as it was typed for it
		}
		readings = append(readings, r)
	}
	slices.SortStableFunc(readings, func(a, b reading) int {
		return cmp.Or(a.misfits-b.misfits, a.foreign-b.foreign)
	})
	return readings
}

// against describes the line as read by another load generator that fits as well. It returns ""
// if the two agree or the other does not fit.
func (r reading) against(other reading) string {
	if other.misfits > r.misfits || other.foreign > r.foreign || other.err != nil || other.tool.Single || other.tool == Own {
		return ""
	}
	differ := []setting{}
	for _, s := range other.settings {
		if !slices.ContainsFunc(r.settings, func(mine setting) bool {
			return mine.flag == s.flag && slices.Equal(mine.value, s.value)
		}) {
			differ = append(differ, s)
		}
	}
	if len(differ) == 0 {
		return ""
	}
	return "the line is read as one of " + r.tool.Name + "; as one of " + other.tool.Name + " it is " + show(differ)
}
