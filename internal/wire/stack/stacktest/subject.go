package stacktest

import (
	"testing"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
)

// Subject is one variant of a stack under test.
type Subject struct {
	Stack   stack.Stack
	Variant scenario.Variant
	// Lacks says what this wire cannot carry, and why. Kinds of calls are not
	// listed here: stack.KindLimiter reports them. For each lack the suite checks
	// that the caller gets an error, or that the call works without it.
	Lacks map[Ability]string
	// Garbage holds bytes that the server must survive, besides those that are
	// wrong on every wire: an oversize length, half a frame. The key names them.
	Garbage map[string][]byte
	// Lifecycle is the lifecycle of every client's connections.
	Lifecycle conn.Lifecycle
	// Datagrams says that the wire is on UDP.
	Datagrams bool

	// Idle names the function of goroutines that a server keeps for its next calls,
	// if it has such a pool. The leak suite has another limit for them.
	Idle string

	label string // marks the goroutines of one check
}

// Ability is a property that a wire may lack although it carries the kind of call.
type Ability string

// The abilities, and what is expected of a stack without one.
const (
	// StatusCodes: the code and the message of a handler's error arrive.
	// Without, the call fails all the same.
	StatusCodes Ability = "status codes"
	// StatusDetails: the details of a handler's error arrive. Without, code
	// and message do.
	StatusDetails Ability = "status details"
	// RequestMetadata: the caller's metadata reaches the handler. Without, a
	// call that has some is refused with Unimplemented.
	RequestMetadata Ability = "request metadata"
	// ResponseMetadata: headers and trailers reach the caller. Without,
	// grpc.SetHeader and grpc.SetTrailer fail in the handler.
	ResponseMetadata Ability = "response metadata"
	// Deadlines: the handler's context carries the caller's deadline. Without,
	// the call still returns in time.
	Deadlines Ability = "deadlines"
	// Cancellation: the handler's context ends when the caller gives up.
	// Without, the call still returns at once.
	Cancellation Ability = "cancellation"
	// OperationNames: the name of the operation arrives. Without, the server
	// cannot refuse one that it does not have.
	OperationNames Ability = "operation names"
	// ServiceNames: the name of the service arrives with it. Without, an
	// operation of that name in any service is taken for the server's own.
	ServiceNames Ability = "service names"
)

// check is one thing that must hold.
type check struct {
	name string
	run  func(testing.TB, Subject)
}

// inEveryLifecycle runs a test in each lifecycle that the variant supports.
func (s Subject) inEveryLifecycle(t *testing.T, test func(*testing.T, Subject)) {
	t.Helper()
	for _, l := range []struct {
		name      string
		lifecycle conn.Lifecycle
	}{{"kept", conn.Kept}, {"fresh", conn.Fresh}, {"resumed", conn.Resumed}, {"early", conn.Early}} {
		t.Run(l.name, func(t *testing.T) {
			if err := stack.CheckLifecycle(s.Stack, s.Variant, l.lifecycle); err != nil {
				t.Logf("not supported: %v", err)
				return
			}
			s.Lifecycle = l.lifecycle
			s.skipForeignRaces(t)
			test(t, s)
		})
	}
}

// skipForeignRaces skips checks in which the race detector finds a library's race.
func (s Subject) skipForeignRaces(t *testing.T) {
	t.Helper()
	if s.Lifecycle == conn.Early && raceDetector {
		t.Skip("quic-go reads the server's transport parameters unlocked when it opens a stream before they have come: a race of its own (quic-go issue 4303)")
	}
}

// lacks reports whether the subject lacks the ability, and logs why.
func (s Subject) lacks(t testing.TB, a Ability) bool {
	t.Helper()
	reason, without := s.Lacks[a]
	if without {
		t.Logf("%s carries no %s: %s", s.Variant, a, reason)
	}
	return without
}

// carries reports whether the subject supports this kind of call, and logs why not.
func (s Subject) carries(t testing.TB, k stack.Kind) bool {
	t.Helper()
	err := stack.CheckKind(s.Stack, s.Variant, k)
	if err != nil {
		t.Logf("%s carries no %s: %v", s.Variant, k, err)
	}
	return err == nil
}

// network returns package net's name for the subject's transport.
func (s Subject) network() string {
	if s.Datagrams {
		return "udp"
	}
	return "tcp"
}
