package workload

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// Filling is bytes of the request's size that do not compress, and differ from
// client to client, so that an answer to someone else's call is noticed.
func (j Job) Filling() []byte {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], j.Seed)
	binary.LittleEndian.PutUint64(seed[8:], uint64(j.Client))
	data := make([]byte, j.RequestBytes)
	_, _ = rand.NewChaCha8(seed).Read(data) // never fails
	return data
}

// patternSpan is over how many bytes the beginnings of patterns are spread.
const patternSpan = 4096

var (
	patternGrowing sync.Mutex
	patternBytes   atomic.Pointer[[]byte]
)

// Pattern is n bytes that do not compress and that both ends know from the
// number alone: whoever gets them can tell, at the cost of comparing memory,
// whether they are the ones meant. They are shared: nobody may write to them.
func Pattern(number uint64, n int) []byte {
	const odd = 2654435761 // neighbours begin far from each other
	begin := int(number * odd % patternSpan)
	all := patternBytes.Load()
	if all == nil || len(*all) < begin+n {
		all = growPattern(n + patternSpan)
	}
	return (*all)[begin : begin+n : begin+n]
}

// growPattern makes the pattern longer. What there was stays its beginning.
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
