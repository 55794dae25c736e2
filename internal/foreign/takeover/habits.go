package takeover

import (
	"cmp"
	"slices"
	"strings"
)

// Habits reads what stands behind wirelab load as a user of another load generator types
// it, and returns what wirelab load parses. What it cannot make sense of stays as it is. A
// line that is wirelab's own comes back unchanged.
func Habits(arguments []string) (translated, told []string, err error) {
	if len(arguments) > maxWords || slices.Contains(arguments, "--from") || slices.ContainsFunc(arguments, isFrom) {
		return arguments, nil, nil
	}
	readings := read(arguments)
	best := readings[0]
	if best.tool == own {
		return arguments, nil, nil
	}
	if best.err != nil {
		return nil, best.told, best.err
	}
	for _, other := range readings[1:] {
		if line := best.against(other); line != "" {
			return best.arguments, append(best.told, line), nil
		}
	}
	return best.arguments, best.told, nil
}

func isFrom(argument string) bool { return strings.HasPrefix(argument, "--from=") }

// reading is a line as a tool's table reads it.
type reading struct {
	*command
	misfits, foreign int // flags that do not fit; flags that are not the tool's own
	arguments, told  []string
	err              error
}

// read reads a line by each tool's table; the best comes first.
func read(arguments []string) []reading {
	readings := []reading{}
	for _, t := range append([]*tool{own}, tools...) {
		also := own
		if t == own {
			also = nil
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
		r.command, r.err = t.translate(l, false)
		r.arguments, r.told = r.command.arguments(), r.command.lines
		if r.command.misfit {
			r.misfits++
		}
		if t == own {
			r.foreign = -1 // before all others, as it was typed for it
		}
		readings = append(readings, r)
	}
	slices.SortStableFunc(readings, func(a, b reading) int {
		return cmp.Or(a.misfits-b.misfits, a.foreign-b.foreign)
	})
	return readings
}

// against says what the line would be as one of another load generator that fits it as well;
// empty: the same, or it does not fit.
func (r reading) against(other reading) string {
	if other.misfits > r.misfits || other.foreign > r.foreign || other.err != nil || other.tool == curl || other.tool == own {
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
	return "the line is read as one of " + r.tool.name + "; as one of " + other.tool.name + " it is " + show(differ)
}
