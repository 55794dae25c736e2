package stacktest

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// rig is a server under test, together with its service.
type rig struct {
	t       testing.TB
	subject Subject
	service *testService // nil if another implementation is served
	server  stack.Server
	address string
	served  chan error // the result of Serve
}

// startService serves a new service on a new loopback port.
func startService(t testing.TB, s Subject) *rig {
	t.Helper()
	return serve(t, s, newService(), "127.0.0.1:0")
}

// serve serves an implementation of the service. A clean-up closes the server and checks that
// Serve returns nil.
func serve(t testing.TB, s Subject, service testpb.TestServiceServer, address string) *rig {
	t.Helper()
	server, err := s.Stack.NewServer(s.Variant)
	requireNoError(t, "NewServer", err)
	r := &rig{t: t, subject: s, server: server, served: make(chan error, 1)}
	r.service, _ = service.(*testService)
	testpb.RegisterTestServiceServer(server, service)
	bound, err := server.Listen(t.Context(), address)
	requireNoError(t, "Listen", err)
	r.address = bound.String()
	go func() { r.served <- server.Serve() }()
	t.Cleanup(r.stop)
	return r
}

// stop closes the server and waits for Serve. Further calls do nothing.
func (r *rig) stop() {
	r.t.Helper()
	if r.served == nil {
		return
	}
	expectNoError(r.t, "Close of the server", r.server.Close())
	r.awaitServe()
}

func (r *rig) awaitServe() {
	r.t.Helper()
	if err := receiveOrFail(r.t, r.served, "Serve did not return after Shutdown or Close"); err != nil {
		r.t.Errorf("Serve returned %v, want nil after Shutdown or Close", err)
	}
	r.served = nil
}

// receiveOrFail receives a value from a channel, or fails the check if none comes.
func receiveOrFail[T any](t testing.TB, from <-chan T, otherwise string) (received T) {
	t.Helper()
	select {
	case received = <-from:
	case <-time.After(waitLimit(t)):
		t.Error(otherwise)
	}
	return received
}

func (r *rig) dial() stack.Client {
	r.t.Helper()
	return dial(r.t, r.subject, stack.Target{Address: r.address})
}

func (r *rig) stub() testpb.TestServiceClient {
	r.t.Helper()
	return testpb.NewTestServiceClient(r.dial())
}

// awaitEnded waits until a handler reports that its context has ended before the handler returned.
func (r *rig) awaitEnded() {
	r.t.Helper()
	receiveOrFail(r.t, r.service.ended, "the handler's context did not end")
}

func dial(t testing.TB, s Subject, target stack.Target) stack.Client {
	t.Helper()
	client, err := s.Stack.NewClient(checkContext(t), s.Variant, s.target(target))
	requireNoError(t, "NewClient", err)
	t.Cleanup(func() {
		expectNoError(t, "Close of the client", client.Close())
	})
	return client
}

func useClient(t testing.TB, s Subject, target stack.Target, use func(testpb.TestServiceClient)) {
	t.Helper()
	client, err := s.Stack.NewClient(checkContext(t), s.Variant, target)
	requireNoError(t, "NewClient", err)
	use(testpb.NewTestServiceClient(client))
	expectNoError(t, "Close of the client", client.Close())
}

// target adds settings that every client of the subject needs. It trusts every certificate, because
// RunSecurity checks certificates and a restarted server has a new certificate.
func (s Subject) target(t stack.Target) stack.Target {
	t.Operations = 4 // number of operations in testpb.TestService
	t.Lifecycle = s.Lifecycle
	t.Trust = secure.Trust{SkipVerify: true}
	return t
}

// checkContext returns a context for a call that should end by itself. It stops a check that hangs.
func checkContext(t testing.TB) context.Context {
	return timeoutContext(t, 2*maxWait)
}

func timeoutContext(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func expectCode(t testing.TB, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("the call ended with %v (%v), want %v", got, err, want)
	}
}

func expectEcho(t testing.TB, stub testpb.TestServiceClient, body string) {
	t.Helper()
	out, err := stub.Unary(checkContext(t), &testpb.TestRequest{Body: []byte(body)})
	if err != nil {
		t.Errorf("a valid call failed: %v", err)
		return
	}
	if string(out.Body) != body {
		t.Errorf("a valid call was answered with %.40q, want %.40q", out.Body, body)
	}
}

// expectRecovery waits until calls succeed again, and fails the check if they do not.
func expectRecovery(t testing.TB, stub testpb.TestServiceClient) {
	t.Helper()
	var err error
	if !becomesTrue(t, func() bool {
		_, err = stub.Unary(timeoutContext(t, time.Second), &testpb.TestRequest{Body: []byte("again")})
		return err == nil
	}) {
		t.Errorf("the client did not recover: %v", err)
	}
}

// becomesTrue calls isSo until it returns true. If that takes too long, becomesTrue returns false.
func becomesTrue(t testing.TB, isSo func() bool) bool {
	const longest = 50 * time.Millisecond
	begin := time.Now()
	for wait := time.Millisecond; !isSo(); wait = min(2*wait, longest) {
		if time.Since(begin) > waitLimit(t) {
			return false
		}
		time.Sleep(wait)
	}
	return true
}

// withMoreTime calls f with a limit that doubles each time, until f reports that it has reached
// its goal. On a busy machine the first limits may be too short.
func withMoreTime(t testing.TB, limit time.Duration, f func(limit time.Duration) (reached bool)) {
	t.Helper()
	for ; !f(limit); limit *= 2 {
		if limit > waitLimit(t) {
			t.Fatalf("no call with a deadline of up to %v reached the peer", limit)
		}
	}
}

// expectNoError fails the check if there is an error, but continues.
func expectNoError(t testing.TB, of string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", of, err)
	}
}

func requireNoError(t testing.TB, of string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", of, err)
	}
}

// expectPrompt fails the check if f takes so long that only a timeout can have ended it.
func expectPrompt(t testing.TB, what string, f func()) {
	t.Helper()
	begin := time.Now()
	f()
	if took := time.Since(begin); took > waitLimit(t) {
		t.Errorf("%s took too long: %v", what, took)
	}
}

// Subject is a variant of a stack under test.
type Subject struct {
	Stack   stack.Stack
	Variant scenario.Variant
	// Lacks gives the reason for each ability that this wire lacks. KindLimiter covers kinds of
	// call. The suite checks that the caller gets an error, or that the call works without the
	// ability.
	Lacks map[Ability]string
	// Fails gives the reason for each check that another project's library fails. The suite skips it.
	Fails map[string]string
	// Garbage holds invalid bytes, by name, that the server must survive: a length that is too
	// large, half a frame.
	Garbage map[string][]byte
	// Lifecycle is the lifecycle of every client's connections.
	Lifecycle conn.Lifecycle
	// Datagrams says that the wire is on UDP.
	Datagrams bool

	// Idle names the function of pooled server goroutines. RunLeaks allows a limited number of such
	// goroutines.
	Idle string

	label string // profiler label of one check's goroutines
}

// Ability is a property that a wire may lack even if it carries the kind of call.
type Ability string

// These are the abilities. Each comment also says what a stack without the ability must do.
const (
	// With StatusCodes, a handler's code and message arrive. Without it, the call still fails.
	StatusCodes Ability = "status codes"
	// With StatusDetails, a handler's details arrive. Without it, only code and message arrive.
	StatusDetails Ability = "status details"
	// With RequestMetadata, the handler gets metadata. Without it, the call fails with
	// Unimplemented.
	RequestMetadata Ability = "request metadata"
	// With ResponseMetadata, the caller gets metadata. Without it, grpc.SetHeader and
	// grpc.SetTrailer fail.
	ResponseMetadata Ability = "response metadata"
	// With Deadlines, the handler gets the deadline. Without it, the call still returns in time.
	Deadlines Ability = "deadlines"
	// With Cancellation, the handler's context ends. Without it, only the call returns at once.
	Cancellation Ability = "cancellation"
	// With OperationNames, the server refuses unknown operations. Without it, unknown operations
	// are accepted.
	OperationNames Ability = "operation names"
	// With ServiceNames, the server refuses unknown services. Without it, only the operation's name
	// is checked.
	ServiceNames Ability = "service names"
)

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

// skipForeignRaces skips checks that fail because of a data race in a library.
func (s Subject) skipForeignRaces(t *testing.T) {
	t.Helper()
	if s.Lifecycle == conn.Early && raceDetector {
		t.Skip("quic-go reads the server's transport parameters without a lock if it opens a stream before they arrive: a race in quic-go (its issue 4303)")
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

func (s Subject) network() string {
	if s.Datagrams {
		return "udp"
	}
	return "tcp"
}

// maxWait limits every wait of a check. It is long, so that a good stack passes on a busy machine.
const maxWait = 2 * time.Minute

// longerThanAnyWait is longer than every wait of a check. It is finite, because a broken stack may
// wait for its end.
const longerThanAnyWait = 2 * maxWait

// waitLimit returns maxWait, or less if the test uses a broken stack on purpose.
func waitLimit(t testing.TB) time.Duration {
	if impatient, is := t.(interface{ patience() time.Duration }); is {
		return impatient.patience()
	}
	return maxWait
}
