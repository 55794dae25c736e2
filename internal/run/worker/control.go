package worker

// A Control is an order to a client that runs, as a line of its input behind the spec:
// {"control":"end"}.
type Control string

// The controls.
const (
	// EndControl closes the window at once; calls that began in it are waited for.
	EndControl Control = "end"
	// PauseControl keeps callers from sending until ResumeControl.
	PauseControl  Control = "pause"
	ResumeControl Control = "resume"
	// GoControl has a client of a group send its first call at an instant, and OpenControl
	// has it open the window at one. Both instants are on the clock of the client's machine.
	GoControl   Control = "go"
	OpenControl Control = "open"
)

// An Order is a control with its instant, if it has one.
type Order struct {
	Control Control `json:"control"`
	AtNS    int64   `json:"at_ns,omitempty"`
}
