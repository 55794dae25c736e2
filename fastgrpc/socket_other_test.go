//go:build !unix

package fastgrpc

import "time"

// cpuTime is not known here; the other bounds of a siege remain.
func cpuTime() time.Duration { return 0 }
