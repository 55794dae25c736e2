// Package stacktest is the suite that every stack must pass before it may be
// measured: a wire that loses an error or mixes up two answers is wrong, however
// fast it is.
//
// A test of a stack hands a Subject to Run. Each check starts a server of the
// stack on loopback with a scripted service behind it (package testpb), dials
// it, and looks at what the generated stubs see; where a peer must misbehave, a
// small proxy stands between the two or raw bytes are sent. Every check
// ends with the question whether a goroutine was left behind.
//
// The suite must not know how any stack frames its bytes. What is wrong on one
// wire only comes in with the Subject.
package stacktest

import (
	"slices"
	"testing"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
)

// Subject is one variant of a stack under test.
type Subject struct {
	Stack   stack.Stack
	Variant scenario.Variant
	// Lacks says what this wire cannot carry, and why. The kinds of call are
	// not listed here: stack.KindLimiter tells them. For each lack the suite
	// checks that the caller is told, or that the call goes on without.
	Lacks map[Ability]string
	// Garbage is what the server must survive besides the bytes that are
	// wrong on every wire: an oversize length, half a frame. The key names it.
	Garbage map[string][]byte
	// Lifecycle is that of every client's connections.
	Lifecycle stack.Lifecycle
	// Datagrams says that the wire is on UDP.
	Datagrams bool

	// Idle is the function of the goroutines that a server keeps for its next
	// burst of calls, where it has such a pool. The leak suite bounds them apart.
	Idle string

	label string // marks the goroutines of one check
}

// Ability is what a wire may lack although it carries the kind of call.
type Ability string

// The abilities. What is expected of a stack without one stands behind it.
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
	// the caller returns in time all the same.
	Deadlines Ability = "deadlines"
	// Cancellation: the handler's context ends when the caller gives up.
	// Without, the caller returns at once all the same.
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

// Run runs every check as a parallel subtest.
func Run(t *testing.T, s Subject) {
	t.Helper()
	s.skipForeignRaces(t)
	for _, c := range checks() {
		if testing.Short() && s.Lifecycle != stack.Kept && !slices.Contains(brief, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			runGuarded(t, s, c)
		})
	}
	if testing.Short() && s.Lifecycle != stack.Kept {
		t.Logf("short: of the checks on connections that carry one call only %v, since each call shakes hands; the full tests have all", brief)
	}
}

// inEveryLifecycle runs tests of the subject in each that its variant has.
func (s Subject) inEveryLifecycle(t *testing.T, test func(*testing.T, Subject)) {
	t.Helper()
	for _, l := range []struct {
		name      string
		lifecycle stack.Lifecycle
	}{{"kept", stack.Kept}, {"fresh", stack.Fresh}, {"resumed", stack.Resumed}, {"early", stack.Early}} {
		t.Run(l.name, func(t *testing.T) {
			if err := stack.CheckLifecycle(s.Stack, s.Variant, l.lifecycle); err != nil {
				t.Logf("not there: %v", err)
				return
			}
			s.Lifecycle = l.lifecycle
			s.skipForeignRaces(t)
			test(t, s)
		})
	}
}

// skipForeignRaces skips what the race detector finds in libraries.
func (s Subject) skipForeignRaces(t *testing.T) {
	t.Helper()
	if s.Lifecycle == stack.Early && raceDetector {
		t.Skip("quic-go reads the server's transport parameters unlocked when it opens a stream before they have come: a race of its own (quic-go issue 4303)")
	}
}

// brief are the checks that short tests make of connections which carry one
// call: those that look at the connections themselves.
var brief = []string{"unary/concurrent", "peer/absent", "life/shutdown", "life/client-close", "life/connections"}

func checks() []check {
	return []check{
		{"unary/sizes", checkSizes},
		{"unary/answer-replaces", checkAnswerReplaces},
		{"unary/oversize-request", checkOversizeRequest},
		{"unary/oversize-response", checkOversizeResponse},
		{"unary/concurrent", checkConcurrent},
		{"unary/unknown-method", checkUnknownMethod},
		{"status/codes", checkStatusCodes},
		{"status/details", checkStatusDetails},
		{"status/plain-error", checkPlainError},
		{"metadata/request", checkRequestMetadata},
		{"metadata/response", checkResponseMetadata},
		{"patience/deadline", checkDeadline},
		{"patience/deadline-on-the-wire", checkDeadlineOnTheWire},
		{"patience/cancel", checkCancel},
		{"patience/ended-before-the-call", checkEndedBefore},
		{"patience/late-answer", checkLateAnswer},
		{"stream/client", checkClientStream},
		{"stream/server", checkServerStream},
		{"stream/bidi", checkBidi},
		{"stream/early-end", checkEarlyEnd},
		{"stream/cancel", checkStreamCancel},
		{"stream/metadata", checkStreamMetadata},
		{"stream/unsupported", checkUnsupportedKinds},
		{"peer/never-answers", checkPeerNeverAnswers},
		{"peer/falls-silent", checkPeerFallsSilent},
		{"peer/closes-mid-response", checkPeerClosesMidResponse},
		{"peer/restarts", checkPeerRestarts},
		{"peer/answers-garbage", checkPeerAnswersGarbage},
		{"peer/sends-garbage", checkPeerSendsGarbage},
		{"peer/absent", checkPeerAbsent},
		{"life/registration", checkRegistration},
		{"life/address-taken", checkAddressTaken},
		{"life/shutdown", checkShutdown},
		{"life/shutdown-runs-out", checkShutdownRunsOut},
		{"life/close", checkClose},
		{"life/client-close", checkClientClose},
		{"life/connections", checkConnections},
		{"life/first-byte", checkFirstByte},
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

// network is the transport below the wire, as package net names it.
func (s Subject) network() string {
	if s.Datagrams {
		return "udp"
	}
	return "tcp"
}
