package service

import (
	"cmp"
	"context"
	crypto "crypto/rand"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/base/expect"
)

// Source makes the requests of one client.
type Source interface {
	// Next returns the next request. It may overwrite the previous one.
	Next() (*Request, error)
}

// A Follower is a source whose requests depend on earlier answers.
type Follower interface {
	Source
	// Begin makes the calls that must precede all others, such as a login.
	Begin(context.Context, Client) error
	// Uses returns the parts of the last request's answer that Follow needs.
	Uses() expect.Uses
	// DecodeAnswer converts the body of the last request's answer into JSON, if it is a message.
	DecodeAnswer(expect.Answer) (expect.Answer, error)
	// Follow checks the answer to the last request. An error means that the request has failed.
	Follow(*expect.Evaluator) error
	// Think returns how long the user waits before the next request.
	Think() time.Duration
}

// A Share identifies one client of a load: its number, and how many clients there are.
type Share struct {
	Number int // from 0
	Of     int
	Seed   uint64
	Turn   *atomic.Int64 // calls of all clients so far; nil if there is one client
}

// FixedSource returns one client's source, whose requests are all known before the window. The clients
// take turns when they send: call 1 of all clients together sends request 1, and so on. After each round in which
// all clients may have sent all requests equally often, they move on by one request. So each client sends
// each request, and a slow request does not slow the same clients down all the time.
func (d *Definition) FixedSource(s Share) Source {
	count, of := len(d.Requests), max(s.Of, 1)
	f := &fixedSource{requests: d.Requests, turn: cmp.Or(s.Turn, new(atomic.Int64)), round: int64(of * count / greatestDivisor(of, count))}
	if d.Random && count > 1 {
		f.random = rand.New(rand.NewPCG(s.Seed, uint64(s.Number))) //nolint:gosec // a client's number is not negative
	}
	return f
}

// greatestDivisor returns the greatest common divisor.
func greatestDivisor(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

type fixedSource struct {
	requests []Request
	turn     *atomic.Int64 // of all clients; unused with one request, because clients share nothing without need
	round    int64         // calls of all clients in a round
	random   *rand.Rand    // nil means that requests are sent in order
}

func (f *fixedSource) Next() (*Request, error) {
	switch {
	case f.random != nil:
		return &f.requests[f.random.IntN(len(f.requests))], nil
	case len(f.requests) == 1:
		return &f.requests[0], nil
	}
	call := f.turn.Add(1) - 1
	return &f.requests[(call+call/f.round)%int64(len(f.requests))], nil
}

// Trace says which requests have a traceparent field, by which a tracing system follows them (W3C
// Trace Context, https://www.w3.org/TR/trace-context/).
type Trace struct {
	Share float64 `json:"share"` // share of all requests, above 0, at most 1
}

// TraceField is the name of the traceparent field in a header or in metadata.
const TraceField = "Traceparent"

// tracedSource adds a traceparent to a share of another source's requests, evenly spread. The
// identifiers differ in each run, so that the traces of two runs stay separate.
type tracedSource struct {
	Source
	share   float64
	reached float64 // grows by share with each request; when it reaches 1, the request is traced
	random  *rand.ChaCha8
	request Request // the last traced request
	header  []Field // the traced request's header
	field   []byte
	last    string // trace identifier of the last request; empty means not traced
}

// TracedSource returns a source that adds traceparents to a share of another source's requests.
func (d *Definition) TracedSource(source Source, client int, seed uint64) Source {
	if d.Trace == nil {
		return source
	}
	t := &tracedSource{Source: source, share: d.Trace.Share, field: []byte("00-................................-................-01")}
	// The golden ratio gives each client another start value. For any number of clients, the start
	// values are evenly spread.
	first := float64(client)*(math.Phi-1) + rand.New(rand.NewPCG(seed, 0x7472616365)).Float64()
	_, t.reached = math.Modf(first)
	var key [32]byte
	_, _ = crypto.Read(key[:]) // never fails
	t.random = rand.NewChaCha8(key)
	return t
}

func (t *tracedSource) Next() (*Request, error) {
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
	t.writeID(t.field[begin : begin+length])
	t.writeID(t.field[begin+length+1 : begin+length+1+2*8])
	field := string(t.field)
	t.last = field[begin : begin+length]
	t.header = append(t.header[:0], request.Header...)
	t.header = append(t.header, Field{Name: TraceField, Value: field})
	t.request = *request
	t.request.Header = t.header
	return &t.request, nil
}

// writeID writes a random identifier in hexadecimal digits. The identifier never consists only of
// zeros, which would be invalid.
func (t *tracedSource) writeID(into []byte) {
	bytes := make([]byte, len(into)/2)
	for isZero := true; isZero; {
		_, _ = t.random.Read(bytes) // never fails
		for _, b := range bytes {
			isZero = isZero && b == 0
		}
	}
	hex.Encode(into, bytes)
}

// Trace returns the trace identifier of the last call, or "" if the call is not traced.
func (c *Caller) Trace() string {
	if t, is := c.source.(*tracedSource); is {
		return t.last
	}
	return ""
}
