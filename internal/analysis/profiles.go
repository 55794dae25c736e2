package analysis

// The kinds of profiles.
const (
	CPUProfile    = "cpu"    // time on a CPU
	OffCPUProfile = "offcpu" // time in which a thread waited
	AllocProfile  = "alloc"  // bytes allocated on the heap
)

// Profile is where one end of a cell spent its time, or its bytes: call stack by
// call stack, over all passes with one probe.
type Profile struct {
	Part          string  `json:"part"`
	Variant       string  `json:"variant"`
	Workload      string  `json:"workload"`
	RequestBytes  int     `json:"request_bytes"`
	ResponseBytes int     `json:"response_bytes"`
	Clients       int     `json:"clients"`
	End           string  `json:"end" jsonschema:"enum=client,enum=server"`
	Kind          string  `json:"kind" jsonschema:"enum=cpu,enum=offcpu,enum=alloc"`
	Unit          string  `json:"unit" jsonschema:"enum=ns,enum=B"`
	Samples       int64   `json:"samples"`  // that it was estimated from; 0 where everything was counted
	PerCall       float64 `json:"per_call"` // of the unit, all stacks together

	// The report's page has these once for all profiles, and packed.
	Categories []string           `json:"-"` // what stacks are sorted into, such as "system calls"
	Functions  []ProfiledFunction `json:"-"`
	Stacks     []ProfiledStack    `json:"-"`
}

// ProfiledFunction is a function that stands in stacks.
type ProfiledFunction struct {
	Name string `json:"name"` // with its package's path
	In   string `json:"in"`   // kernel, or a library's name; empty for the program itself
}

// ProfiledStack is a call stack. A profile may hold one twice, in two categories.
type ProfiledStack struct {
	Frames   []int   // places in the profile's Functions, outermost first
	Category int     // place in the profile's Categories
	Weight   float64 // share of all that the profile holds; a profile's weights add up to 1
}
