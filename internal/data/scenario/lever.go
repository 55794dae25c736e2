package scenario

// Levers asks which change of a part's first stack moves a figure of its calls. The part's stacks
// are the first stack, perhaps one to compare it with, and one stack for each lever.
type Levers struct {
	// The figure that the levers shall move; cpu is the CPU time per call of both ends. If left out,
	// the mean.
	Figure string `json:"figure,omitempty" jsonschema:"enum=mean,enum=p99,enum=cpu"`
	// One of the part's stacks that is faster than the first. The report then says which share of the
	// difference each lever removes.
	Against Variant `json:"against,omitzero"`
	// The levers.
	Tried []Lever `json:"tried" jsonschema:"required,minItems=1"`
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
