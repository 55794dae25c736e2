// Package stacktest is the test suite that every stack must pass before it is measured: a wire that
// loses an error or mixes up two answers is wrong, even if it is fast.
//
//  1. A stack's test passes a Subject to Run, RunSecurity and RunLeaks.
//  2. Each check starts a server of the stack on loopback, with a scripted service
//     (package testpb), and dials it.
//  3. The check calls the generated stubs and checks the results. If a peer must misbehave,
//     the check puts a proxy between the ends, or sends raw bytes.
//  4. At its end the check fails if it has left a goroutine behind.
//
// The suite must not know how a stack frames its bytes. The Subject provides bytes that are invalid
// only on its own wire.
package stacktest

import (
	"slices"
	"testing"

	"wirelab.dev/internal/wire/conn"
)

// Suites names the functions that a stack's tests must call.
var Suites = []string{"Run", "RunSecurity", "RunLeaks"}

// Skips lists the suites that a stack's tests do not run, with reasons. A test in package catalog
// reads this list from the source code. It fails if a suite is neither run nor listed.
type Skips []Skip

// Skip is one suite that a stack's tests do not run.
type Skip struct{ Stack, Suite, Reason string }

// Run runs every check as a parallel subtest.
func Run(t *testing.T, s Subject) {
	t.Helper()
	s.skipForeignRaces(t)
	for _, c := range checks() {
		if testing.Short() && s.Lifecycle != conn.Kept && !slices.Contains(shortChecks, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if reason, fails := s.Fails[c.name]; fails {
				t.Skip(reason)
			}
			t.Parallel()
			runGuarded(t, s, c)
		})
	}
	if testing.Short() && s.Lifecycle != conn.Kept {
		t.Logf("short tests with one connection per call run only the checks %v, because each call needs a handshake; full tests run all", shortChecks)
	}
}

// shortChecks lists the checks that short tests run in lifecycles with one call per connection.
var shortChecks = []string{"unary/concurrent", "peer/absent", "life/shutdown", "life/client-close", "life/connections"}

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
