package latency

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// allocateOffHeap returns zeroed memory for n values outside the Go heap (see the package
// comment). T must not contain pointers, because the garbage collector does not look there. With
// prefault, later accesses cause no page faults. If the kernel refuses the mapping, the memory
// comes from the Go heap, because a larger heap is better than a failed measurement.
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
	// A mapping starts at a page boundary, so the memory is aligned for any T.
	return memory[T]{unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mapped))), n), func() {
		if err := unix.Munmap(mapped); err != nil {
			panic("latency: free recorder memory: " + err.Error())
		}
	}}
}
