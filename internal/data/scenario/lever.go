package scenario

import "slices"

// Levers asks which change of a part's first stack moves a figure of its calls. The part's stacks
// are the first stack, perhaps one to compare it with, and one stack for each lever.
type Levers struct {
	// The figure that the levers shall move; cpu is the CPU time per call of both ends. If left out,
	// the mean.
	Figure string `json:"figure,omitempty" jsonschema:"enum=mean,enum=p99,enum=cpu"`
	// One of the part's stacks that is faster than the first. The report then says which share of the
	// difference each lever removes.
	Against Variant `json:"against,omitzero"`
	// The levers. If left out, the other variants of the first stack that the part lists.
	Tried []Lever `json:"tried,omitempty" jsonschema:"minItems=1"`
	// Levers that are not tried.
	NotTried []LeftOut `json:"not-tried,omitempty"`
}

// A Lever is one change of a part's first stack.
type Lever struct {
	// One of the part's stacks: the first one with the change.
	Stack Variant `json:"stack" jsonschema:"required"`
	// The name of the change, as in gogc=400.
	Name string `json:"name" jsonschema:"required"`
	// The line to write into one's own program.
	Write string `json:"write,omitempty"`
	// The price of the change.
	Costs string `json:"costs,omitempty"`
	// How much longer an end computes in each call, if the lever is a delay. The report then says how
	// much longer a call takes for each microsecond of it.
	Delay Duration `json:"delay,omitzero"`
	// The stacks of two other levers, if this lever makes both changes.
	Both []Variant `json:"both,omitempty"`
}

// A LeftOut is a lever that is not tried.
type LeftOut struct {
	// The name of the change.
	Name string `json:"name" jsonschema:"required"`
	// Why it is not tried.
	Why string `json:"why" jsonschema:"required"`
}

// setDefault makes a lever of each other variant of the part's first stack, if the part asks for levers
// and lists none.
func (l *Levers) setDefault(stacks []Variant) {
	if l.Figure == "" && l.Against.Stack == "" || l.Tried != nil {
		return
	}
	for _, v := range stacks[min(1, len(stacks)):] {
		if v.Stack == stacks[0].Stack {
			l.Tried = append(l.Tried, Lever{Stack: v, Name: nameOfChange(stacks[0], v)})
		}
	}
}

// nameOfChange names the settings that a variant has and the plain one has not, or else the plain
// one's settings that it lacks.
func nameOfChange(plain, v Variant) string {
	added, removed := Variant{Stack: v.Stack}, Variant{Stack: v.Stack}
	for _, s := range v.Options {
		if !slices.Contains(plain.Options, s) {
			added.Options = append(added.Options, s)
		}
	}
	for _, s := range plain.Options {
		if _, set := v.Get(s.Key); !set {
			removed.Options = append(removed.Options, s)
		}
	}
	if len(added.Options) == 0 {
		return "without " + removed.String()[len(v.Stack)+1:]
	}
	return added.String()[len(v.Stack)+1:]
}
