//go:build !linux

package clock

import "time"

// sharedNow has no clock here that all processes share and that Go reads too:
// the wall clock at start is the nearest to it. Instants of two processes then
// agree only as well as the wall clock stood still between their starts.
func sharedNow() int64 { return time.Now().UnixNano() }

// yieldCPU does nothing: systems other than Linux are for development, not for
// measuring, and Until already yields to the Go scheduler.
func yieldCPU() {}
