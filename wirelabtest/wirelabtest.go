// Package wirelabtest measures a generated gRPC service of another Go project over several stacks,
// in a test or benchmark of that project.
//
//	func TestShopIsFast(t *testing.T) {
//		wirelabtest.Compare(t,
//			func(r grpc.ServiceRegistrar) { shoppb.RegisterShopServer(r, newServer()) },
//			func(ctx context.Context, conn grpc.ClientConnInterface) error {
//				_, err := shoppb.NewShopClient(conn).Get(ctx, &shoppb.GetRequest{Id: 7})
//				return err
//			},
//			wirelabtest.Stacks("grpc", "fastgrpc", "grpc-h3"),
//			wirelabtest.FailIf("p99 > 20ms"))
//	}
//
// It is wirelab compare for code: the same load engine, slices, checks, statistics and gates, and a run
// that wirelab report opens. docs/wirelabtest.md explains the result.
//
// # Processes
//
// Each server and each client is a process of its own, as in every measurement of wirelab. Compare
// starts the test's program again, with the flag -wirelabtest.worker. There, the same test runs until
// it reaches Compare, which then serves or calls instead of measuring. So no TestMain is needed, and
// this follows:
//
//   - Code before Compare, also in TestMain, runs in each of these processes; code after it does not.
//     Put expensive setup of the service into register, which runs in the server's process only.
//   - Cleanups and the rest of TestMain run there, too, but not for a subtest, whose processes end at
//     once. Temporary files are removed in any case.
//   - Server and client share no variables. Both closures may read what the test prepared.
//   - A test or subtest calls Compare once. For several comparisons, use t.Run.
//
// All processes end with Compare. Only one Compare of a program measures at a time; go test -p 1 also
// keeps the tests of other packages from disturbing it.
//
// # Dependencies
//
// The package needs most of the laboratory. It adds some 90 modules to the go.sum of your project and
// 50 MB to the test's program, but nothing to the programs that you ship. To keep your go.mod as it is,
// put these tests into a folder with a go.mod of its own.
package wirelabtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"wirelab.dev/internal/wire/workload/own"
)

// Compare measures a service over several stacks. register adds the service to a server; it runs in
// the server's process. call makes one call and returns its error; it runs in the client's process, in
// many goroutines at once.
//
// The test fails if the service cannot be measured, if calls fail, or if a condition of FailIf is not
// kept. A machine that is too busy for a verdict does not fail the test by itself: the result says
// what was refused and why. Compare logs the figures and the answer; a benchmark also reports them as
// metrics. It ends early when the test's context ends, and before the test's deadline.
func Compare(t testing.TB, register func(grpc.ServiceRegistrar), call func(context.Context, grpc.ClientConnInterface) error, options ...Option) *Result {
	t.Helper()
	if register == nil || call == nil {
		t.Fatal("wirelabtest: register and call: found nil: give two functions")
	}
	service := own.Service{Register: register, Call: call}
	if isWorker() {
		work(t, service)
		return &Result{}
	}
	if !claimName(t) {
		t.Fatalf("wirelabtest: %s calls Compare twice: call it once per test, and use t.Run for several comparisons", t.Name())
	}
	m := measurement{service: service, testName: testName{t.Name(), isBenchmark(t)}, progress: &progressLog{t: t}}
	if err := m.configure(options); err != nil {
		t.Fatalf("wirelabtest: %v", err)
	}
	ctx, cancel := contextOf(t)
	defer cancel()
	measuring.Lock()
	defer measuring.Unlock()
	seen, err := m.measure(ctx)
	if err != nil {
		t.Fatalf("wirelabtest: %v", err)
	}
	r, err := m.conclude(seen)
	if err != nil {
		t.Fatalf("wirelabtest: %v", err)
	}
	t.Log("\n" + strings.TrimRight(r.text, "\n"))
	for _, failure := range r.failures {
		t.Error(failure)
	}
	if b, is := t.(*testing.B); is {
		r.reportMetrics(b)
	}
	return r
}

// measuring is held by the Compare that measures.
var measuring sync.Mutex

// names holds the running tests that have called Compare.
var names sync.Map

// claimName reports whether t has not called Compare before.
func claimName(t testing.TB) bool {
	_, taken := names.LoadOrStore(t.Name(), true)
	if !taken {
		t.Cleanup(func() { names.Delete(t.Name()) }) // with -count, the test runs again
	}
	return !taken
}

func isBenchmark(t testing.TB) bool {
	_, is := t.(*testing.B)
	return is
}

// beforeDeadline is the time that is left to end all processes before the test's deadline.
const beforeDeadline = 3 * time.Second

// contextOf returns a context that ends with the test, or shortly before the test's deadline.
func contextOf(t testing.TB) (context.Context, context.CancelFunc) {
	limited, is := t.(interface{ Deadline() (time.Time, bool) })
	if !is {
		return context.WithCancel(t.Context())
	}
	deadline, has := limited.Deadline()
	if !has {
		return context.WithCancel(t.Context())
	}
	return context.WithDeadlineCause(t.Context(), deadline.Add(-beforeDeadline),
		fmt.Errorf("ended %v before the test's deadline: give go test a longer -timeout, or a shorter Budget", beforeDeadline))
}

// progressInterval is the time between two lines of progress.
const progressInterval = 2 * time.Second

// progressLog logs lines about the run, at most one per progressInterval. One goroutine at a time may
// write.
type progressLog struct {
	t    testing.TB
	last time.Time
}

// Write logs lines, or drops them if the last one is not old enough.
func (l *progressLog) Write(lines []byte) (int, error) {
	now := time.Now()
	if l.last.IsZero() {
		l.last = now
	}
	if now.Sub(l.last) >= progressInterval && !isBenchmark(l.t) {
		l.last = now
		l.t.Log(strings.TrimSpace(string(lines)))
	}
	return len(lines), nil
}
