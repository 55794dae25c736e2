// Package price measures what probes cost on this machine: how much longer a system call
// takes, and a switch of threads, while a probe looks on.
//
// Two threads of this process are watched, on one CPU. Times are the shortest of several,
// as others only ever make them longer; those without the probe are taken before and after
// those with it.
package price

// Prices holds the shortest times that were seen.
type Prices struct {
	Syscall RoundTrip `json:"syscall"` // getppid
	// Switch is a byte to another thread and back: two switches and four system calls.
	Switch RoundTrip `json:"switch"`
}

// A RoundTrip holds the times of an exchange without and with the probe.
type RoundTrip struct {
	BareNS    float64 `json:"bare_ns"`
	WatchedNS float64 `json:"watched_ns"`
}

// AddedNS returns the time that the probe adds. A tiny one may come out negative.
func (r RoundTrip) AddedNS() float64 { return r.WatchedNS - r.BareNS }
