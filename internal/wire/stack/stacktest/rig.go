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

// rig is a server under test and its service.
type rig struct {
	t       testing.TB
	subject Subject
	service *testService // nil if another implementation is served
	server  stack.Server
	address string
	served  chan error // the result of Serve
}

// start serves a fresh service on a loopback port of its own.
func start(t testing.TB, s Subject) *rig {
	t.Helper()
	return launch(t, s, newService(), "127.0.0.1:0")
}

// launch serves any implementation. The clean-up closes the server and expects Serve to return nil.
func launch(t testing.TB, s Subject, service testpb.TestServiceServer, address string) *rig {
	t.Helper()
	server, err := s.Stack.NewServer(s.Variant)
	noError(t, "NewServer", err)
	r := &rig{t: t, subject: s, server: server, served: make(chan error, 1)}
	r.service, _ = service.(*testService)
	testpb.RegisterTestServiceServer(server, service)
	bound, err := server.Listen(t.Context(), address)
	noError(t, "Listen", err)
	r.address = bound.String()
	go func() { r.served <- server.Serve() }()
	t.Cleanup(r.stop)
	return r
}

// stop closes the server and waits for Serve. It may be called again.
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
	if err := await(r.t, r.served, "Serve did not return after Shutdown or Close"); err != nil {
		r.t.Errorf("Serve returned %v, want nil after Shutdown or Close", err)
	}
	r.served = nil
}

// await receives from the channel. If nothing comes, it fails the check.
func await[T any](t testing.TB, from <-chan T, otherwise string) (received T) {
	t.Helper()
	select {
	case received = <-from:
	case <-time.After(patienceOf(t)):
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

// awaitEnded waits until the context of a handler has ended early.
func (r *rig) awaitEnded() {
	r.t.Helper()
	await(r.t, r.service.ended, "the handler's context did not end")
}

// dial makes a client whose clean-up closes it.
func dial(t testing.TB, s Subject, target stack.Target) stack.Client {
	t.Helper()
	client, err := s.Stack.NewClient(bounded(t), s.Variant, s.target(target))
	noError(t, "NewClient", err)
	t.Cleanup(func() {
		expectNoError(t, "Close of the client", client.Close())
	})
	return client
}

// useClient makes a client, lets use call it, and closes it.
func useClient(t testing.TB, s Subject, target stack.Target, use func(testpb.TestServiceClient)) {
	t.Helper()
	client, err := s.Stack.NewClient(bounded(t), s.Variant, target)
	noError(t, "NewClient", err)
	use(testpb.NewTestServiceClient(client))
	expectNoError(t, "Close of the client", client.Close())
}

// target adds the settings that every client of the subject needs. It trusts any certificate: the
// security suite checks them, and a restarted server has a new one.
func (s Subject) target(t stack.Target) stack.Target {
	t.Operations = 4 // testpb.TestService has 4
	t.Lifecycle = s.Lifecycle
	t.Trust = secure.Trust{SkipVerify: true}
	return t
}

// bounded returns the context of a call that should end by itself. It stops a check that hangs.
func bounded(t testing.TB) context.Context {
	return within(t, 2*patience)
}

func within(t testing.TB, d time.Duration) context.Context {
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

// expectEcho makes a call and fails the check unless the answer is right.
func expectEcho(t testing.TB, stub testpb.TestServiceClient, body string) {
	t.Helper()
	out, err := stub.Unary(bounded(t), &testpb.TestRequest{Body: []byte(body)})
	if err != nil {
		t.Errorf("a valid call failed: %v", err)
		return
	}
	if string(out.Body) != body {
		t.Errorf("a valid call was answered with %.40q, want %.40q", out.Body, body)
	}
}

// expectRecovery fails the check unless calls are answered again within its patience.
func expectRecovery(t testing.TB, stub testpb.TestServiceClient) {
	t.Helper()
	var err error
	if !eventually(t, func() bool {
		_, err = stub.Unary(within(t, time.Second), &testpb.TestRequest{Body: []byte("again")})
		return err == nil
	}) {
		t.Errorf("the client did not recover: %v", err)
	}
}

// eventually repeats the question until the answer is true, or until its patience ends.
func eventually(t testing.TB, isSo func() bool) bool {
	const longest = 50 * time.Millisecond
	begin := time.Now()
	for wait := time.Millisecond; !isSo(); wait = min(2*wait, longest) {
		if time.Since(begin) > patienceOf(t) {
			return false
		}
		time.Sleep(wait)
	}
	return true
}

// withMoreTime calls f with limits, each twice the one before, until f has reached its goal: on a
// busy machine the first limits may be too short.
func withMoreTime(t testing.TB, limit time.Duration, f func(limit time.Duration) (reached bool)) {
	t.Helper()
	for ; !f(limit); limit *= 2 {
		if limit > patienceOf(t) {
			t.Fatalf("calls with a deadline of up to %v do not reach the peer", limit)
		}
	}
}

// expectNoError fails the check on an error, and goes on.
func expectNoError(t testing.TB, of string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", of, err)
	}
}

// noError ends the check on an error.
func noError(t testing.TB, of string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", of, err)
	}
}

// promptly fails the check if f ends only because a timeout ended it.
func promptly(t testing.TB, what string, f func()) {
	t.Helper()
	begin := time.Now()
	f()
	if took := time.Since(begin); took > patienceOf(t) {
		t.Errorf("%s took %v", what, took)
	}
}

// Subject is one variant of a stack under test.
type Subject struct {
	Stack   stack.Stack
	Variant scenario.Variant
	// Lacks holds the reasons why this wire lacks abilities; kinds of calls are in KindLimiter. The
	// suite checks that the caller gets an error, or that the call works without it.
	Lacks map[Ability]string
	// Garbage holds bytes, by name, that the server must survive: an oversize length, half a frame.
	Garbage map[string][]byte
	// Lifecycle is the lifecycle of every client's connections.
	Lifecycle conn.Lifecycle
	// Datagrams says that the wire is on UDP.
	Datagrams bool

	// Idle names the function of goroutines that a server pools. The leak suite has a limit for them.
	Idle string

	label string // marks the goroutines of one check
}

// Ability is a property that a wire may lack although it carries the kind of call.
type Ability string

// The abilities. "Without" says what a stack without one must still do.
const (
	// StatusCodes: a handler's code and message arrive. Without, the call still fails.
	StatusCodes Ability = "status codes"
	// StatusDetails: a handler's details arrive. Without, code and message do.
	StatusDetails Ability = "status details"
	// RequestMetadata reaches the handler. Without, the call is refused with Unimplemented.
	RequestMetadata Ability = "request metadata"
	// ResponseMetadata reaches the caller. Without, grpc.SetHeader and grpc.SetTrailer fail.
	ResponseMetadata Ability = "response metadata"
	// Deadlines: the handler has the caller's deadline. Without, the call still returns in time.
	Deadlines Ability = "deadlines"
	// Cancellation ends the handler's context. Without, the call still returns at once.
	Cancellation Ability = "cancellation"
	// OperationNames arrive. Without, the server cannot refuse an unknown one.
	OperationNames Ability = "operation names"
	// ServiceNames arrive. Without, any service's operation of that name is the server's own.
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

// skipForeignRaces skips checks in which the race detector finds a race in a library.
func (s Subject) skipForeignRaces(t *testing.T) {
	t.Helper()
	if s.Lifecycle == conn.Early && raceDetector {
		t.Skip("quic-go reads the server's transport parameters unlocked when it opens a stream before they have come: a race in quic-go (its issue 4303)")
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

// patience bounds every wait of a check: a starved machine must not fail a good stack.
const patience = 2 * time.Minute

// forever is longer than any check waits, but finite: a stack may really wait for it.
const forever = 2 * patience

// patienceOf returns patience, or less if the test knows that the stack is broken.
func patienceOf(t testing.TB) time.Duration {
	if impatient, is := t.(interface{ patience() time.Duration }); is {
		return impatient.patience()
	}
	return patience
}
