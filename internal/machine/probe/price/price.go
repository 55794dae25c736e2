// Package price measures the cost of a probe on this machine: how much longer a system call and a
// context switch take while the probe runs.
//
// The probe watches two threads of this process, on one CPU. Each result is the shortest of several
// measured times, because other programs can only lengthen a time. Each measurement with the probe
// comes between two measurements without the probe.
package price

// Prices holds the times without and with a probe.
type Prices struct {
	Syscall RoundTrip `json:"syscall"` // a call of getppid
	// Switch is the time to send a byte to another thread and back. It includes two context
	// switches and four system calls.
	Switch RoundTrip `json:"switch"`
}

// A RoundTrip holds the time of one operation without and with the probe.
type RoundTrip struct {
	BareNS    float64 `json:"bare_ns"`
	WatchedNS float64 `json:"watched_ns"`
}

// AddedNS returns the time that the probe adds. By chance it may be slightly negative.
func (r RoundTrip) AddedNS() float64 { return r.WatchedNS - r.BareNS }
