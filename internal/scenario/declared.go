package scenario

import "slices"

// Declarations are what stacks and workloads say of themselves for the report.
// A run's manifest keeps them: who reads records must know no stack and no
// workload.
type Declarations struct {
	// Stacks are all that there are, in the order of their list.
	Stacks    []Declaration `json:"stacks"`
	Workloads []Declaration `json:"workloads"`
	// Protocols names what each variant of the run speaks, as in "HTTP/2".
	Protocols map[string]string `json:"protocols"`
}

// Declaration is of a stack or a workload.
type Declaration struct {
	Name string `json:"name"`
	// Sweep says that a workload's calls ask for nothing.
	Sweep bool `json:"sweep,omitempty"`
	// Options are those that a report needs.
	Options []Option `json:"options,omitempty"`
}

// Declare keeps the options of which the declaration says something.
func Declare(name string, options []Option) Declaration {
	d := Declaration{Name: name}
	for _, o := range options {
		if o.Role != NoRole || o.Contrast != nil {
			d.Options = append(d.Options, o)
		}
	}
	return d
}

// Option is the zero value where the declaration says nothing of it.
func (d Declaration) Option(key string) Option {
	for _, o := range d.Options {
		if o.Key == key {
			return o
		}
	}
	return Option{}
}

// Has reports whether an option has the role.
func (d Declaration) Has(role Role) bool {
	return slices.ContainsFunc(d.Options, func(o Option) bool { return o.Role == role })
}

// Stack is the declaration of that name. One that is not there has only a name.
func (d *Declarations) Stack(name string) Declaration { return find(d.Stacks, name) }

// Workload is the declaration of a cell's workload.
func (d *Declarations) Workload(text string) Declaration {
	w, err := ParseWorkload(text)
	if err != nil {
		return Declaration{Name: text}
	}
	return find(d.Workloads, w.Stack)
}

func find(among []Declaration, name string) Declaration {
	for _, d := range among {
		if d.Name == name {
			return d
		}
	}
	return Declaration{Name: name}
}

// Operation is what the calls of a cell's workload do, as far as its options
// choose that; else the workload's name.
func (d *Declarations) Operation(text string) string {
	declared := d.Workload(text)
	operation := declared.Name
	set, _ := ParseWorkload(text)
	for _, o := range declared.Options {
		if o.Role != OperationRole {
			continue
		}
		if value, has := set.Get(o.Key); has {
			return value
		}
		if o.Default != "" {
			operation = o.Default
		}
	}
	return operation
}
