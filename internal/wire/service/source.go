package service

import (
	"context"
	crypto "crypto/rand"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"time"

	"wirelab.dev/internal/base/expect"
)

// Source makes the requests of one client.
type Source interface {
	// Next returns the next request. It may use the memory of the one before.
	Next() (*Request, error)
}

// A Follower is a source whose requests depend on the answers before.
type Follower interface {
	Source
	// Begin makes the calls that must come before the others.
	Begin(context.Context, Client) error
	// Uses returns the parts of the answer to the last request that Follow uses.
	Uses() expect.Uses
	// Follow checks the answer to the last request. After an error the request has failed.
	Follow(*expect.Look) error
	// Think returns how long the user waits before the next request.
	Think() time.Duration
}

// Fixed returns the source of one client's requests if all are known before the window.
func (d *Definition) Fixed(client int, seed uint64) Source {
	f := &fixed{requests: d.Requests, next: client % len(d.Requests)}
	if d.Random && len(d.Requests) > 1 {
		f.random = rand.New(rand.NewPCG(seed, uint64(client)))
	}
	return f
}

type fixed struct {
	requests []Request
	next     int
	random   *rand.Rand // nil: in turn
}

func (f *fixed) Next() (*Request, error) {
	request := &f.requests[f.next]
	switch {
	case f.random != nil:
		f.next = f.random.IntN(len(f.requests))
	case len(f.requests) > 1:
		f.next = (f.next + 1) % len(f.requests)
	}
	return request, nil
}

// Trace says which requests carry a traceparent, so that a tracing system follows them
// (W3C Trace Context, https://www.w3.org/TR/trace-context/).
type Trace struct {
	Share float64 `json:"share"` // share of all requests, above 0, at most 1
}

// TraceField is the name of the field in the header, or in metadata.
const TraceField = "Traceparent"

// traced adds a traceparent to a share of another source's requests, evenly spread by the seed.
// The identifiers are new in each run, since traces of two runs would be one.
type traced struct {
	Source
	share   float64
	reached float64 // grows by share with each request; one that takes it to 1 is traced
	random  *rand.ChaCha8
	request Request // the last one that was traced
	header  []Field // the traced request's header
	field   []byte
	last    string // the identifier of the last request's trace; empty: it has none
}

// Traced returns a source of a client's requests that traces a share of them.
func (d *Definition) Traced(source Source, client int, seed uint64) Source {
	if d.Trace == nil {
		return source
	}
	t := &traced{Source: source, share: d.Trace.Share, field: []byte("00-................................-................-01")}
	// Clients begin at steps of the golden ratio, which spread evenly for any number of clients.
	first := float64(client)*(math.Phi-1) + rand.New(rand.NewPCG(seed, 0x7472616365)).Float64()
	_, t.reached = math.Modf(first)
	var key [32]byte
	_, _ = crypto.Read(key[:]) // never fails
	t.random = rand.NewChaCha8(key)
	return t
}

func (t *traced) Next() (*Request, error) {
	t.last = ""
	request, err := t.Source.Next()
	if err != nil {
		return nil, err
	}
	if t.reached += t.share; t.reached < 1 {
		return request, nil
	}
	t.reached--
	const begin, length = len("00-"), 2 * 16
	t.identify(t.field[begin : begin+length])
	t.identify(t.field[begin+length+1 : begin+length+1+2*8])
	field := string(t.field)
	t.last = field[begin : begin+length]
	t.header = append(t.header[:0], request.Header...)
	t.header = append(t.header, Field{Name: TraceField, Value: field})
	t.request = *request
	t.request.Header = t.header
	return &t.request, nil
}

// identify writes an identifier in hexadecimal digits. One of zeros only is invalid.
func (t *traced) identify(into []byte) {
	bytes := make([]byte, len(into)/2)
	for isZero := true; isZero; {
		_, _ = t.random.Read(bytes) // never fails
		for _, b := range bytes {
			isZero = isZero && b == 0
		}
	}
	hex.Encode(into, bytes)
}

// Trace returns the identifier of the last call's trace; empty if it has none.
func (c *Caller) Trace() string {
	if t, is := c.source.(*traced); is {
		return t.last
	}
	return ""
}
