package record

// Allocations is where a process's heap allocations came from, estimated from
// samples.
type Allocations struct {
	Bytes   int64 `json:"bytes"` // of all, those of no stack here included
	Objects int64 `json:"objects"`
	// Stacks are those that allocated most, by bytes.
	Stacks []AllocationStack `json:"stacks"`
}

// AllocationStack is who allocated: the functions of a call stack.
type AllocationStack struct {
	Functions []string `json:"functions"` // the outermost first; without the runtime's own that allocate
	Bytes     int64    `json:"bytes"`
	Objects   int64    `json:"objects"`
}

// Calls are those that were made in the trial before its window and in it.
func (r *Record) Calls() int64 { return r.WarmUp.Requests + r.Requests }
