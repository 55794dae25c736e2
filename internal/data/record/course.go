package record

// Course holds figures of a trial over time, in stretches of one length, warm-up included.
type Course struct {
	BeginNS   int64    `json:"begin_ns"`   // of the first stretch, relative to the window's start: negative in warm-up
	StretchNS int64    `json:"stretch_ns"` // the length of each stretch
	Calls     []int64  `json:"calls"`      // calls that ended in each stretch
	P99NS     []*int64 `json:"p99_ns"`     // of their service times, within 7 %; null if fewer than 100 ended
	// Failed counts the calls that failed. Older records lack it, and the next three.
	Failed []int64 `json:"failed,omitempty"`
	// The calls' response times, from the intended send; in a closed loop without a limit their
	// service times. Within 7 %; null if fewer than 10, 100 and 1 ended.
	ResponseP50NS []*int64 `json:"response_p50_ns,omitempty"`
	ResponseP99NS []*int64 `json:"response_p99_ns,omitempty"`
	ResponseMaxNS []*int64 `json:"response_max_ns,omitempty"`
	// CPU time of each end; absent if it was not sampled.
	ClientCPUNS []int64 `json:"client_cpu_ns,omitempty"`
	ServerCPUNS []int64 `json:"server_cpu_ns,omitempty"`
}

// CourseCalls is the number of calls that a stretch needs for a P99, and CourseMedianCalls for a P50.
const (
	CourseCalls       = 100
	CourseMedianCalls = 10
)
