// Package price measures the cost of probes on this machine: how much longer a system call and a
// switch of threads take under a probe.
//
// Two threads of this process are watched, on one CPU. Times are the shortest of several, since
// other programs only make them longer. Times without the probe are taken before and after the
// times with it.
package price

// Prices holds the shortest measured times.
type Prices struct {
	Syscall RoundTrip `json:"syscall"` // getppid
	// Switch sends a byte to another thread and back: two switches and four system calls.
	Switch RoundTrip `json:"switch"`
}

// A RoundTrip holds the times of an exchange without and with the probe.
type RoundTrip struct {
	BareNS    float64 `json:"bare_ns"`
	WatchedNS float64 `json:"watched_ns"`
}

// AddedNS returns the time that the probe adds. Chance can make a small one negative.
func (r RoundTrip) AddedNS() float64 { return r.WatchedNS - r.BareNS }
