// Package workload defines what clients ask a server for. A workload is a generated
// service with its handlers, and the callers that send requests to it.
//
// A trial uses a workload in these steps:
//
//  1. The server's worker registers the workload's service with a stack.
//  2. The client's worker makes one Caller for each client, from the trial's
//     parameters and seed. The Caller prepares its requests.
//  3. When the measuring window opens, each Caller makes one call after another
//     over the generated stub.
//
// This package and the workloads must not know which stack carries them, when
// calls are sent, or how long they took.
package workload

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/data/scenario"
)

// A Workload is a service under load.
type Workload interface {
	// Info describes the workload.
	Info() Info
	// Check returns an error if the parameters are invalid.
	Check(Parameters) error
	// Register registers the handlers with a server. Check has passed before.
	Register(grpc.ServiceRegistrar, Parameters)
	// NewCaller makes one client. Check has passed for the job's parameters.
	NewCaller(grpc.ClientConnInterface, Job) Caller
}

// Info describes a workload.
type Info struct {
	Name    string            // in scenarios and on the command line
	Summary string            // one line: what a call asks for
	Options []scenario.Option // options that may follow the name
	// Sized reports whether the scenario's sizes determine how big a call is. If not,
	// the options do.
	Sized      bool
	Operations int // number of the service's operations
	// Sweep says that calls are empty, and that a run measures throughput at several numbers of
	// calls in flight.
	Sweep bool
}

// ReadOptions parses the options that the parameters set.
func ReadOptions(w Workload, p Parameters) *scenario.Options {
	info := w.Info()
	return scenario.ReadOptions("workload", scenario.Variant{Stack: info.Name, Options: p.Settings}, info.Options)
}

// Streaming is an optional interface of a Workload whose calls are not all unary.
type Streaming interface {
	// Streams returns the streams that callers with these parameters open.
	Streams(Parameters) []*grpc.StreamDesc
}

// Pooling is an optional interface of a Workload. If the parameters say so, it receives all
// messages of a stream into the same one instead of new ones.
type Pooling interface {
	PoolsMessages()
}

// Parameters say how big a call is, and what it does.
type Parameters struct {
	RequestBytes  int // payload only, without the wire's own bytes
	ResponseBytes int
	Settings      []scenario.Setting // the options that are set
	// Definition holds input that a workload needs beside its options, in its own format.
	Definition string
	// PooledMessages may be set only for workloads that implement Pooling.
	PooledMessages bool
}

// Check returns an error if options are invalid, if a size is above most, or if sizes are set
// although options decide. read, which may be nil, makes the workload's own checks.
func (p Parameters) Check(w Workload, most int, read func(*scenario.Options)) error {
	info := w.Info()
	for _, sizeBytes := range []int{p.RequestBytes, p.ResponseBytes} {
		switch {
		case !info.Sized && sizeBytes != 0:
			return fmt.Errorf("%s takes no sizes: its options say how big a call is; leave sizes out", info.Name)
		case sizeBytes < 0 || info.Sized && sizeBytes > most:
			return fmt.Errorf("%s: a payload of %d bytes: want 0 to %d", info.Name, sizeBytes, most)
		}
	}
	options := ReadOptions(w, p)
	if read != nil {
		read(options)
	}
	return options.Err()
}

// A Job is one client's part of a trial. Equal jobs send equal bytes.
type Job struct {
	Parameters
	Client int // from 0
	Seed   uint64
}

// Caller makes one call after another for one client, in its goroutine. The context of its first
// call outlives all calls, so that a stream may be opened under it and kept.
//
// A method Check() error, if there is one, checks the answer of the last call. The load engine
// calls it after a call without an error, when the clock has stopped; its error fails the call.
type Caller interface {
	Call(context.Context) error
}

// MaxBytes is the largest payload of echo and chat. With its other fields a message stays
// below the message limit of every stack.
const MaxBytes = 16<<20 - 64

// AnswerBytes returns the size that a request asks for; nil: the same as the request's.
func (j Job) AnswerBytes() *uint32 {
	if j.ResponseBytes == j.RequestBytes {
		return nil
	}
	size := uint32(j.ResponseBytes)
	return &size
}

// Answer returns the data of the answer to a request. It depends on the last bytes of the
// request's data, so that no server can send it before they arrive. The handler checks the size,
// which a client could set to any value.
func Answer(number uint64, data []byte, sizeBytes *uint32) ([]byte, error) {
	if sizeBytes == nil {
		return data, nil
	}
	if *sizeBytes > MaxBytes {
		return nil, status.Errorf(codes.InvalidArgument, "an answer of %d bytes: want 0 to %d", *sizeBytes, MaxBytes)
	}
	var last [freshBytes]byte
	copy(last[:], data[max(0, len(data)-freshBytes):])
	return Pattern(number+binary.LittleEndian.Uint64(last[:]), int(*sizeBytes)), nil
}

// Pause waits for d, without using the CPU, or returns a status when the context ends.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// The options of a Stall.
const (
	StallKey = "stall"
	everyKey = "every"
)

// StallOptions lists the options that ReadStall reads. A stall is a known delay, which the
// measurement must find.
func StallOptions() []scenario.Option {
	return []scenario.Option{
		{Key: StallKey, Default: "0s", Parse: scenario.Time, Help: "TIME: how long the handler sleeps in every Nth request"},
		{Key: everyKey, Default: "100", Parse: scenario.IntBetween(1, 1_000_000_000), Help: "N: every Nth request stalls"},
	}
}

// Stall delays every Nth request of a server; nil delays none. Any goroutine may use it.
type Stall struct {
	pause time.Duration
	every uint64
	seen  atomic.Uint64
}

// ReadStall reads a workload's StallOptions.
func ReadStall(o *scenario.Options) *Stall {
	stall := &Stall{pause: scenario.Value[time.Duration](o, StallKey), every: uint64(max(1, scenario.Value[int](o, everyKey)))}
	if stall.pause == 0 {
		if o.Has(everyKey) {
			o.Fail(fmt.Errorf("%s has no effect without %s", everyKey, StallKey))
		}
		return nil
	}
	return stall
}

// Hold delays the request if it is an Nth one.
func (s *Stall) Hold(ctx context.Context) error {
	if s == nil || s.seen.Add(1)%s.every != 0 {
		return nil
	}
	return Pause(ctx, s.pause)
}

// Always returns the delay of every request, or 0 if some have none.
func (s *Stall) Always() time.Duration {
	if s == nil || s.every > 1 {
		return 0
	}
	return s.pause
}

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

// Freshener makes the content of each request new, by replacing the last bytes of its data. So
// nobody can know the answer before all of the request has arrived.
type Freshener struct{ random rand.PCG }

// Freshener returns the job's own. Equal jobs make equal bytes.
func (j Job) Freshener() *Freshener {
	const stream = 0x66726573 // keeps it independent of the random numbers for fillings and arrivals
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

// patternSpan is the range of bytes in which patterns begin.
const patternSpan = 4096

var (
	patternGrowing sync.Mutex
	patternBytes   atomic.Pointer[[]byte]
)

// Pattern returns n incompressible bytes that depend only on the number, so that the receiver
// can compare them with memory. They are shared: do not write to them.
func Pattern(number uint64, n int) []byte {
	const odd = 2654435761 // so that neighbouring numbers begin far apart
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
