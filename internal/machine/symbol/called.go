package symbol

import (
	"encoding/binary"
	"os"
	"runtime"
	"slices"
)

// InLibrary reports whether a program counter is in a file other than the process's program.
func (p *Process) InLibrary(pc uint64) bool {
	m := p.mappingAt(pc)
	return m != nil && !m.program && !m.isCompiled()
}

// CalledFunction returns the address of the function that returns to an address, if a call instruction names
// it. Libraries without frame pointers hide their caller in a call stack: the next counter is already that of
// the caller's caller. But the call before this counter names the function that is missing.
func (p *Process) CalledFunction(returnAddress uint64) (address uint64, known bool) {
	address, looked := p.called[returnAddress]
	if !looked {
		address = p.findCalled(returnAddress)
		p.called[returnAddress] = address
	}
	return address, address != 0
}

func (p *Process) findCalled(returnAddress uint64) uint64 {
	m := p.mappingAt(returnAddress)
	const callBytes = 5 // E8 and a distance of 32 bits, on amd64
	if runtime.GOARCH != "amd64" || m == nil || m.isCompiled() || returnAddress-callBytes < m.start {
		return 0
	}
	file, err := os.Open(p.openPath(m))
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }() // the file was only read
	var call [callBytes]byte
	if _, err := file.ReadAt(call[:], int64(returnAddress-callBytes-m.start+m.offset)); err != nil || call[0] != 0xE8 {
		return 0
	}
	address := returnAddress + uint64(int64(int32(binary.LittleEndian.Uint32(call[1:]))))
	// Not in the middle of something, such as the jumps to other libraries, which have no names.
	if m != p.mappingAt(address) || slices.Equal(p.findFrames(address), p.findFrames(address-1)) {
		return 0
	}
	return address
}
