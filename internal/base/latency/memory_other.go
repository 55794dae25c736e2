//go:build !linux

package latency

// offHeap takes memory from the Go heap: systems other than Linux are for
// development, not for measuring.
func offHeap[T any](n int, _ bool) (values []T, release func()) {
	return make([]T, n), func() {}
}
