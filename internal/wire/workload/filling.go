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

// Freshener makes the content of each request new, so that no answer can be known before
// its request, nor before all of it has arrived: it replaces the last bytes of the data.
type Freshener struct{ random rand.PCG }

// Freshener returns the job's. Equal jobs make equal bytes.
func (j Job) Freshener() *Freshener {
	const stream = 0x66726573 // apart from the seeds of fillings and arrivals
	f := &Freshener{}
	f.random.Seed(j.Seed, stream+uint64(j.Client))
	return f
}

// freshBytes is the number of new bytes: too many to guess.
const freshBytes = 8

// Freshen replaces the last bytes of the data (3 ns).
func (f *Freshener) Freshen(data []byte) {
	var fresh [freshBytes]byte
	binary.LittleEndian.PutUint64(fresh[:], f.random.Uint64())
	copy(data[max(0, len(data)-freshBytes):], fresh[:])
}

// tail returns the number that the last bytes of the data make.
func tail(data []byte) uint64 {
	var last [freshBytes]byte
	copy(last[:], data[max(0, len(data)-freshBytes):])
	return binary.LittleEndian.Uint64(last[:])
}

// patternSpan is the range of bytes in which patterns begin.
const patternSpan = 4096

var (
	patternGrowing sync.Mutex
	patternBytes   atomic.Pointer[[]byte]
)

// Pattern returns n incompressible bytes that depend only on the number, so that the receiver
// can compare them with memory. They are shared: do not write to them.
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
