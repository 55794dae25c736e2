//go:build !unix

package fastgrpc

import "time"

// cpuTime is not available on this system: attacks are checked for memory only.
func cpuTime() time.Duration { return 0 }
