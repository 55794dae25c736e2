//go:build !linux

package clock

import "time"

// sharedNow returns the wall clock. Instants of two processes agree only if nobody sets the clock
// between their starts.
func sharedNow() int64 { return time.Now().UnixNano() }

// cpuTime returns the elapsed time, which is an upper limit of the CPU time.
func cpuTime() int64 { return Now() }

// yieldCPU does nothing: Until already yields to the Go scheduler.
func yieldCPU() {}

// sleepExactly does nothing: waiting costs CPU time here.
func sleepExactly(time.Duration) {}
