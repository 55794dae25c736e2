package workload

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// Filling returns incompressible bytes of the request's size. They differ between
// clients, so that an answer to another client's call is noticed.
func (j Job) Filling() []byte {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], j.Seed)
	binary.LittleEndian.PutUint64(seed[8:], uint64(j.Client))
	data := make([]byte, j.RequestBytes)
	_, _ = rand.NewChaCha8(seed).Read(data) // never fails
	return data
}

// patternSpan is the range of bytes in which patterns begin.
const patternSpan = 4096

var (
	patternGrowing sync.Mutex
	patternBytes   atomic.Pointer[[]byte]
)

// Pattern returns n incompressible bytes that depend only on the number. The receiver
// can therefore check them by comparing memory. The bytes are shared: do not write to
// them.
func Pattern(number uint64, n int) []byte {
	const odd = 2654435761 // so that neighbours begin far apart
	begin := int(number * odd % patternSpan)
	all := patternBytes.Load()
	if all == nil || len(*all) < begin+n {
		all = growPattern(n + patternSpan)
	}
	return (*all)[begin : begin+n : begin+n]
}

// growPattern makes the pattern longer; its beginning does not change.
func growPattern(n int) *[]byte {
	patternGrowing.Lock()
	defer patternGrowing.Unlock()
	if all := patternBytes.Load(); all != nil && len(*all) >= n {
		return all
	}
	longer := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{'p', 'a', 't', 't', 'e', 'r', 'n'}).Read(longer) // never fails
	patternBytes.Store(&longer)
	return &longer
}
