//go:build !linux

package latency

// offHeap takes memory from the Go heap: systems other than Linux are for
// development, not for measuring.
func offHeap[T any](n int, _ bool) memory[T] { return memory[T]{make([]T, n), func() {}} }
