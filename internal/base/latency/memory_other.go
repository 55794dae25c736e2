//go:build !linux

package latency

// allocateOffHeap uses the Go heap. Systems other than Linux are supported only for development.
func allocateOffHeap[T any](n int, _ bool) memory[T] { return memory[T]{make([]T, n), func() {}} }
