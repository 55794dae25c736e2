package insight

import "math"

// An Explanation divides the time of a cell, or the difference between two cells, into parts.
type Explanation struct {
	Of      *Insight `json:"of"`                // the explained cell, called B in the parts
	Against *Insight `json:"against,omitempty"` // the cell for comparison, called A; absent if there is none

	Measured Measured `json:"measured"` // the means of the measured trials, which have no probe
	Causes   []Cause  `json:"causes"`   // causes of the time or the difference, the most important first; empty if none is clear

	Stages []ExplainedFigure `json:"stages"` // a call's time by stage; empty if no probe traced calls, else one element
	CPU    []ExplainedFigure `json:"cpu"`    // CPU time per call of each end, by category
	// OffCPU is the time per call in which threads of each end waited, summed over all threads, by what
	// they waited for.
	OffCPU []ExplainedFigure `json:"off_cpu"`
	// Waits are the times for which a call waits in the server's own functions.
	Waits []Change `json:"waits"`
	// Allocations are heap allocations per call of each end.
	Allocations []ExplainedAllocation `json:"allocations"`
	// Syscalls and Counters are numbers of events per call.
	Syscalls []Change `json:"syscalls"`
	Counters []Change `json:"counters"`
	// Functions are shares of the CPU time of each end, without the functions that they call.
	Functions []Change `json:"functions"`

	// Unobserved says what the probes did not see of the explained cells, and why.
	Unobserved []string `json:"unobserved"`

	Others []string `json:"others"` // names of the cells with probes that are not explained
}

// Cells returns the explained cell, and the cell for comparison if there is one.
func (e *Explanation) Cells() []*Insight {
	if e.Against == nil {
		return []*Insight{e.Of}
	}
	return []*Insight{e.Of, e.Against}
}

// An ExplainedAllocation holds the heap allocations of an end, per call.
type ExplainedAllocation struct {
	End       string   `json:"end"`
	Bytes     Change   `json:"bytes"`
	Objects   Change   `json:"objects"`
	Functions []Change `json:"functions"` // bytes by function, the largest difference first
}

// An ExplainedFigure holds a figure and the parts that it consists of.
type ExplainedFigure struct {
	End   string   `json:"end,omitempty"` // client or server; empty if the figure covers both ends
	Whole Change   `json:"whole"`         // the figure, measured without a probe
	Parts []Change `json:"parts"`         // the largest difference first
	Rest  float64  `json:"rest"`          // difference between A and B that the parts do not explain
}

// A Change is one figure in cells A and B. If there is only one cell, A is zero.
type Change struct {
	Name  string  `json:"name"`
	End   string  `json:"end,omitempty"`
	A     float64 `json:"a"`
	B     float64 `json:"b"`
	Error float64 `json:"error,omitempty"` // standard error of the difference, if known
}

// Difference returns B minus A.
func (c Change) Difference() float64 { return c.B - c.A }

// IsClear reports whether a difference is more than noise.
func (c Change) IsClear() bool { return math.Abs(c.Difference()) > clearErrors*c.Error }

// clearErrors is the number of standard errors beyond which a difference is more than noise.
const clearErrors = 3
