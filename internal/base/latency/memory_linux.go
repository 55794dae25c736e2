package latency

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// allocateOffHeap returns zeroed memory for n values outside the Go heap (the package comment says
// why). T must not contain pointers: the garbage collector does not look there. With prefault, no
// access to it causes a page fault later. If the kernel refuses the mapping, the memory comes from
// the heap: a larger heap is better than a measurement that fails.
func allocateOffHeap[T any](n int, prefault bool) memory[T] {
	flags := unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	if prefault {
		flags |= unix.MAP_POPULATE
	}
	size := n * int(unsafe.Sizeof(*new(T)))
	mapped, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return memory[T]{make([]T, n), func() {}}
	}
	// A mapping starts at a page boundary, so it is aligned for any T.
	return memory[T]{unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mapped))), n), func() {
		if err := unix.Munmap(mapped); err != nil {
			panic("latency: free recorder memory: " + err.Error())
		}
	}}
}
