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

// A Workload is a service that wirelab can put under load.
type Workload interface {
	Info() Info
	Check(Parameters) error
	// Register registers the handlers with a server. Call Check first.
	Register(grpc.ServiceRegistrar, Parameters)
	// NewCaller makes one client. Call Check first.
	NewCaller(grpc.ClientConnInterface, Job) Caller
}

// Info describes a workload.
type Info struct {
	Name    string            // name in scenarios and on the command line
	Summary string            // one line about the purpose of a call
	Options []scenario.Option // options that may follow the name
	// Sized reports whether the scenario's sizes determine the size of a call. Otherwise the
	// options determine the size.
	Sized      bool
	Operations int // number of the service's operations
	// Sweep says that calls are empty. A run then measures throughput at several numbers of calls
	// in flight.
	Sweep bool
}

// ReadOptions parses the options that the parameters set.
func ReadOptions(w Workload, p Parameters) *scenario.Options {
	info := w.Info()
	return scenario.ReadOptions("workload", scenario.Variant{Stack: info.Name, Options: p.Settings}, info.Options)
}

// Streaming is an optional interface of a Workload whose calls are not all unary.
type Streaming interface {
	// Streams returns the streams that callers open with these parameters.
	Streams(Parameters) []*grpc.StreamDesc
}

// Pooling is an optional interface of a Workload that can receive all messages of a stream into
// one message. It does so if Parameters.PooledMessages is set.
type Pooling interface {
	PoolsMessages()
}

// Parameters holds the sizes and options of a call.
type Parameters struct {
	RequestBytes  int // size of the payload, without the bytes that the wire adds
	ResponseBytes int
	Settings      []scenario.Setting // the options that are set
	// Definition holds input that does not fit into options, in the workload's own format.
	Definition string
	// PooledMessages asks for Pooling, which the workload must implement.
	PooledMessages bool
}

// Check returns an error if an option is invalid, a size is above most, or sizes are set although
// options determine the size. If read is not nil, it makes the workload's own checks.
func (p Parameters) Check(w Workload, most int, read func(*scenario.Options)) error {
	info := w.Info()
	for _, sizeBytes := range []int{p.RequestBytes, p.ResponseBytes} {
		switch {
		case !info.Sized && sizeBytes != 0:
			return fmt.Errorf("%s takes no sizes, because its other options set the size of a call: leave sizes out", info.Name)
		case sizeBytes < 0 || info.Sized && sizeBytes > most:
			return fmt.Errorf("%s: the payload has %d bytes: want 0 to %d", info.Name, sizeBytes, most)
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
	Client int // this client's number, from 0
	Seed   uint64
}

// Caller makes one call after another for one client, in the client's goroutine. The first call's
// context ends only after the last call, so that a stream with this context can stay open.
//
// A caller may also have a method Check() error, which checks the last answer. The load engine
// calls it after a successful call, outside the measured time. An error of Check makes the call
// fail.
type Caller interface {
	Call(context.Context) error
}

// MaxBytes is the largest payload of echo and chat. It leaves room for a message's other fields
// below the message limit of the stacks.
const MaxBytes = 16<<20 - 64

// RequestedAnswerBytes returns the answer's size, or nil if the request has the same size.
func (j Job) RequestedAnswerBytes() *uint32 {
	if j.ResponseBytes == j.RequestBytes {
		return nil
	}
	size := uint32(j.ResponseBytes)
	return &size
}

// Answer returns the data of the answer to a request. It depends on the last bytes of the request's
// data, so that no server can send the answer before these bytes arrive. Answer refuses a size that
// is too large, because a client could request any size.
func Answer(number uint64, data []byte, sizeBytes *uint32) ([]byte, error) {
	if sizeBytes == nil {
		return data, nil
	}
	if *sizeBytes > MaxBytes {
		return nil, status.Errorf(codes.InvalidArgument, "the request asks for an answer of %d bytes: want 0 to %d", *sizeBytes, MaxBytes)
	}
	var last [changedBytes]byte
	copy(last[:], data[max(0, len(data)-changedBytes):])
	return Pattern(number+binary.LittleEndian.Uint64(last[:]), int(*sizeBytes)), nil
}

// Pause waits for d without using the CPU. It returns a status if the context ends before.
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

// These keys name the options of a Stall.
const (
	StallKey = "stall"
	everyKey = "every"
)

// StallOptions lists the options that ReadStall reads. A stall is a known delay that the
// measurement must find.
func StallOptions() []scenario.Option {
	return []scenario.Option{
		{Key: StallKey, Default: "0s", Parse: scenario.Time, Help: "TIME: how long the handler sleeps in every Nth request"},
		{Key: everyKey, Default: "100", Parse: scenario.IntBetween(1, 1_000_000_000), Help: "N: every Nth request stalls"},
	}
}

// Stall delays every Nth request of a server. A nil Stall delays no request. Any goroutine may use
// it.
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
			o.Fail(fmt.Errorf("%s=… has no effect without %s=…", everyKey, StallKey))
		}
		return nil
	}
	return stall
}

// DelayIfDue counts a request, and delays it if the count is a multiple of N.
func (s *Stall) DelayIfDue(ctx context.Context) error {
	if s == nil || s.seen.Add(1)%s.every != 0 {
		return nil
	}
	return Pause(ctx, s.pause)
}

// FixedDelay returns the delay if every request is delayed, otherwise 0.
func (s *Stall) FixedDelay() time.Duration {
	if s == nil || s.every > 1 {
		return 0
	}
	return s.pause
}

// RandomPayload returns incompressible bytes of the request's size. They differ between clients,
// so that a client notices an answer to another client's call.
func (j Job) RandomPayload() []byte {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], j.Seed)
	binary.LittleEndian.PutUint64(seed[8:], uint64(j.Client))
	data := make([]byte, j.RequestBytes)
	_, _ = rand.NewChaCha8(seed).Read(data) // never fails
	return data
}

// LastBytesChanger replaces the last bytes of each request's data. So no server can know the answer
// before the whole request has arrived.
type LastBytesChanger struct{ random rand.PCG }

// NewLastBytesChanger returns a changer for the job. Equal jobs make equal bytes.
func (j Job) NewLastBytesChanger() *LastBytesChanger {
	const stream = 0x66726573 // keeps these random numbers independent of payloads and arrivals
	f := &LastBytesChanger{}
	f.random.Seed(j.Seed, stream+uint64(j.Client))
	return f
}

// changedBytes is the number of changed bytes. Their content cannot be guessed.
const changedBytes = 8

// ChangeLastBytes replaces the last bytes of data. It takes 3 ns.
func (f *LastBytesChanger) ChangeLastBytes(data []byte) {
	var fresh [changedBytes]byte
	binary.LittleEndian.PutUint64(fresh[:], f.random.Uint64())
	copy(data[max(0, len(data)-changedBytes):], fresh[:])
}

// patternSpan is the number of offsets at which a pattern may begin.
const patternSpan = 4096

var (
	patternMutex sync.Mutex
	patternBytes atomic.Pointer[[]byte]
)

// Pattern returns n incompressible bytes that depend only on number. The receiver can compare them
// with its own copy. Callers share the bytes and must not change them.
func Pattern(number uint64, n int) []byte {
	const odd = 2654435761 // an odd factor, so that neighbouring numbers get distant offsets
	begin := int(number * odd % patternSpan)
	all := patternBytes.Load()
	if all == nil || len(*all) < begin+n {
		all = growPattern(n + patternSpan)
	}
	return (*all)[begin : begin+n : begin+n]
}

func growPattern(n int) *[]byte {
	patternMutex.Lock()
	defer patternMutex.Unlock()
	if all := patternBytes.Load(); all != nil && len(*all) >= n {
		return all
	}
	longer := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{'p', 'a', 't', 't', 'e', 'r', 'n'}).Read(longer) // never fails
	patternBytes.Store(&longer)
	return &longer
}
