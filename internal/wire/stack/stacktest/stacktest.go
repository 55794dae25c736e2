// Package stacktest is the suite that every stack must pass before it may be
// measured: a wire that loses an error or mixes up two answers is wrong, however
// fast it is.
//
//  1. A test of a stack passes a Subject to Run, RunSecurity and RunLeaks.
//  2. Each check starts a server of the stack on loopback, with a scripted service
//     (package testpb), and dials it.
//  3. The check looks at what the generated stubs see. If a peer must misbehave, a
//     proxy stands between the two, or the check sends raw bytes.
//  4. At the end it fails if a goroutine was left behind.
//
// The suite must not know how any stack frames its bytes. Bytes that are wrong on
// one wire only come with the Subject.
package stacktest

import (
	"slices"
	"testing"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
)

// Suites are the functions that a stack's tests must call.
var Suites = []string{"Run", "RunSecurity", "RunLeaks"}

// Skips lists the suites that a stack's tests leave out, and why. The test of package
// catalog reads them from the source, and fails if a suite is neither run nor listed.
type Skips []Skip

// Skip is one suite that a stack leaves out.
type Skip struct{ Stack, Suite, Reason string }

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

// Run runs every check as a parallel subtest.
func Run(t *testing.T, s Subject) {
	t.Helper()
	s.skipForeignRaces(t)
	for _, c := range checks() {
		if testing.Short() && s.Lifecycle != conn.Kept && !slices.Contains(brief, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			runGuarded(t, s, c)
		})
	}
	if testing.Short() && s.Lifecycle != conn.Kept {
		t.Logf("short: of the checks on connections that carry one call only %v, since each call shakes hands; the full tests have all", brief)
	}
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

// brief lists the checks that short tests make of connections with one call each:
// those that look at the connections themselves.
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

// network returns package net's name for the subject's transport.
func (s Subject) network() string {
	if s.Datagrams {
		return "udp"
	}
	return "tcp"
}
