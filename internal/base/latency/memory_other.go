//go:build !linux

package latency

// allocateOffHeap takes memory from the Go heap: other systems are for development.
func allocateOffHeap[T any](n int, _ bool) memory[T] { return memory[T]{make([]T, n), func() {}} }
