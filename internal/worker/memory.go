package worker

import (
	"os"
	"runtime/debug"
)

// MemoryLimit is what a worker's Go runtime may use, in bytes, before its
// collector works harder than by default. A stack with 500 large calls in
// flight would otherwise let its garbage grow past a gigabyte, and a trial must
// not be able to take the machine down. GOMEMLIMIT, where it is set, holds
// instead.
const MemoryLimit = 800 << 20

func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(MemoryLimit)
	}
}
