package wirelabtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/wire/workload/ping/pingpb"
	"wirelab.dev/wirelabtest"
)

// TestMain is the user's own code, which also runs in workers. Its lines must not get between their events.
func TestMain(m *testing.M) {
	_, _ = os.Stdout.WriteString("TestMain begins\n")
	m.Run()
	_, _ = os.Stdout.WriteString("TestMain ends\n")
}

// server is a service of generated code, as another project has it.
type server struct {
	pingpb.UnimplementedPingServiceServer
	pause time.Duration
}

func (s server) Ping(context.Context, *pingpb.PingRequest) (*pingpb.PingResponse, error) {
	time.Sleep(s.pause)
	return &pingpb.PingResponse{}, nil
}

func register(r grpc.ServiceRegistrar) { pingpb.RegisterPingServiceServer(r, server{}) }

func call(ctx context.Context, conn grpc.ClientConnInterface) error {
	_, err := pingpb.NewPingServiceClient(conn).Ping(ctx, &pingpb.PingRequest{})
	return err
}

// quickly measures once, for a moment: enough to see that everything works.
func quickly(options ...wirelabtest.Option) []wirelabtest.Option {
	return append(options, wirelabtest.Repeats(1), wirelabtest.Window(50*time.Millisecond), wirelabtest.Callers(4))
}

// measures skips a test that starts processes and measures, where only fast tests run.
func measures(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("measures, which takes seconds")
	}
}

// recorder is a testing.TB that keeps its failures: a machine that is too busy for a valid repeat must
// not fail a test here. Fatalf panics with a fatal value.
type recorder struct {
	testing.TB
	ctx      context.Context
	failures []string
	logged   strings.Builder
}

type fatal struct{ text string }

func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Log(args ...any)          { fmt.Fprintln(&r.logged, args...) }
func (r *recorder) Error(args ...any)        { r.failures = append(r.failures, fmt.Sprint(args...)) }
func (r *recorder) Fatal(args ...any)        { panic(fatal{fmt.Sprint(args...)}) }

func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

// fatalOf compares, and returns the text with which the comparison ends the test.
func fatalOf(t *testing.T, r *recorder, call func(context.Context, grpc.ClientConnInterface) error, options ...wirelabtest.Option) (text string) {
	t.Helper()
	defer func() {
		end, is := recover().(fatal)
		if !is && !t.Skipped() { // a worker skips the rest of the test
			t.Error("the comparison did not end the test")
		}
		text = end.text
	}()
	r.TB = t
	if r.ctx == nil {
		r.ctx = t.Context()
	}
	wirelabtest.Compare(r, register, call, options...)
	return ""
}

func TestAServiceIsMeasuredOverEachStack(t *testing.T) {
	measures(t)
	folder := t.TempDir()
	r := wirelabtest.Compare(&recorder{TB: t, ctx: t.Context()}, register, call, quickly(wirelabtest.Stacks("grpc", "fastgrpc:conn=pool:2", "grpc-h3"), wirelabtest.SaveTo(folder), wirelabtest.FailIf("errors > 0"))...)
	if len(r.Stacks) != 3 {
		t.Fatalf("%d stacks, want 3", len(r.Stacks))
	}
	for i, name := range []string{"grpc", "fastgrpc:conn=pool:2", "grpc-h3"} {
		if s := r.Stacks[i]; s.Name != name || s.Calls == 0 || s.Failed != 0 || s.Mean.Value <= 0 || s.Throughput.Value <= 0 || s.Repeats != 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if len(r.Gates) != 3 || r.Gates[1].Stack != "fastgrpc:conn=pool:2" || r.Gates[1].Outcome != "kept" {
		t.Errorf("the gates are %+v", r.Gates)
	}
	for _, file := range []string{"manifest.json", "records.jsonl", "report.html", "cells.csv"} {
		if _, err := os.Stat(filepath.Join(r.Directory, file)); err != nil {
			t.Error(err)
		}
	}
	if !strings.HasPrefix(filepath.Base(r.Directory), "testaserviceismeasuredovereachstack-") {
		t.Errorf("the run is in %s", r.Directory)
	}
	checkNoProcessIsLeft(t)
}

// The run of one test is the baseline of the next, also in another process.
func TestChangesAreJudgedAgainstABaseline(t *testing.T) {
	measures(t)
	once := func(options ...wirelabtest.Option) (r *wirelabtest.Result, failures []string) {
		t.Helper()
		r = &wirelabtest.Result{} // the second one's workers do not run the first one
		t.Run("once", func(t *testing.T) {
			tb := &recorder{TB: t, ctx: t.Context()}
			r = wirelabtest.Compare(tb, register, call, append(options, wirelabtest.Stacks("fastgrpc"), wirelabtest.Window(50*time.Millisecond))...)
			failures = tb.failures
		})
		return r, failures
	}
	before, _ := once(wirelabtest.SaveTo(t.TempDir()))
	after, failures := once(wirelabtest.Baseline(before.Directory), wirelabtest.FailIf("p99 > -99.9%"))
	if len(after.Gates) != 1 {
		t.Fatalf("the gates are %+v", after.Gates)
	}
	if g := after.Gates[0]; g.Outcome == "kept" || len(failures) == 0 {
		t.Errorf("%+v fails the test with %q", g, failures)
	}
}

func TestGatesFailTheTest(t *testing.T) {
	measures(t)
	tb := &recorder{TB: t, ctx: t.Context()}
	r := wirelabtest.Compare(tb, register, call, quickly(wirelabtest.Stacks("fastgrpc"), wirelabtest.FailIf("errors < 1", "handshake > 1h"))...)
	for _, want := range []string{"breached: errors < 1", "cannot tell: handshake > 1h"} {
		if !slices.ContainsFunc(tb.failures, func(failure string) bool { return strings.HasPrefix(failure, want) }) {
			t.Errorf("the test failed with %q, without %q; gates %+v", tb.failures, want, r.Gates)
		}
	}
}

func TestUndecidedGatesPassIfAsked(t *testing.T) {
	measures(t)
	tb := &recorder{TB: t, ctx: t.Context()}
	wirelabtest.Compare(tb, register, call, quickly(wirelabtest.Stacks("fastgrpc"), wirelabtest.FailIf("handshake > 1h"), wirelabtest.UndecidedPasses())...)
	if says := tb.logged.String(); !strings.Contains(says, "passes because of UndecidedPasses") {
		t.Errorf("the test failed with %q and logged\n%s", tb.failures, says)
	}
}

// A subtest's worker runs the whole test up to the subtest.
func TestSubtestsCompareOnTheirOwn(t *testing.T) {
	measures(t)
	for _, name := range []string{"a b", "a b", "c/d (e)"} {
		t.Run(name, func(t *testing.T) {
			r := wirelabtest.Compare(&recorder{TB: t, ctx: t.Context()}, register, call, quickly(wirelabtest.Stacks("fastgrpc"))...)
			if len(r.Stacks) != 1 || r.Stacks[0].Calls == 0 {
				t.Errorf("measured %+v", r.Stacks)
			}
		})
	}
}

func TestAFailingCallIsFoundBeforeMeasuring(t *testing.T) {
	broken := func(context.Context, grpc.ClientConnInterface) error {
		return status.Error(codes.NotFound, "no such article")
	}
	text := fatalOf(t, &recorder{}, broken, wirelabtest.Stacks("fastgrpc"))
	for _, want := range []string{"a first call over fastgrpc failed, so nothing was measured", "no such article"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
}

// A worker ends its test where the parent would go on.
func TestAWorkerThatDoesNotReachCompareIsReported(t *testing.T) {
	measures(t)
	if slices.ContainsFunc(os.Args, func(argument string) bool { return strings.HasPrefix(argument, "-wirelabtest.worker=") }) {
		t.Skip("the database is in use")
	}
	text := fatalOf(t, &recorder{}, call, wirelabtest.Stacks("fastgrpc"))
	if !strings.Contains(text, "a first process of TestAWorkerThatDoesNotReachCompareIsReported did not reach Compare, so nothing was measured; code before Compare runs in each process") {
		t.Errorf("ended with %q", text)
	}
}

func TestAPanicOfTheServiceIsQuoted(t *testing.T) {
	measures(t)
	var calls atomic.Int64
	broken := func(ctx context.Context, conn grpc.ClientConnInterface) error {
		if calls.Add(1) > 1 { // the first call is in the test's own process
			panic("no stock")
		}
		return call(ctx, conn)
	}
	tb := &recorder{TB: t, ctx: t.Context()}
	wirelabtest.Compare(tb, register, broken, quickly(wirelabtest.Stacks("fastgrpc"), wirelabtest.FailIf("p99 > 1h"))...)
	if len(tb.failures) != 1 || !strings.HasPrefix(tb.failures[0], "fastgrpc has no valid repeat: client fastgrpc: the worker ended with exit status 2") || !strings.Contains(tb.failures[0], "panic: no stock") {
		t.Errorf("the test failed with %q", tb.failures)
	}
}

func TestTheTestsContextEndsTheComparison(t *testing.T) {
	measures(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("the user pressed Ctrl-C")
	calls := 0
	text := fatalOf(t, &recorder{ctx: ctx}, func(c context.Context, conn grpc.ClientConnInterface) error {
		if calls++; calls == 1 { // in this process; the workers measure until they are stopped
			time.AfterFunc(2*time.Second, func() { cancel(stop) })
		}
		return call(c, conn)
	}, wirelabtest.Stacks("fastgrpc"), wirelabtest.Repeats(500))
	if !strings.Contains(text, stop.Error()) {
		t.Errorf("ended with %q", text)
	}
	checkNoProcessIsLeft(t)
}

func TestASecondCompareIsRefused(t *testing.T) {
	measures(t)
	wirelabtest.Compare(&recorder{TB: t, ctx: t.Context()}, register, call, quickly(wirelabtest.Stacks("fastgrpc"))...)
	if text := fatalOf(t, &recorder{}, call); !strings.Contains(text, "calls Compare twice: call it once per test, and use t.Run") {
		t.Errorf("ended with %q", text)
	}
}

// BenchmarkCompare shows the metrics that a benchmark gets.
func BenchmarkCompare(b *testing.B) {
	wirelabtest.Compare(b, register, call, quickly(wirelabtest.Stacks("grpc", "fastgrpc"))...)
}

func checkNoProcessIsLeft(t *testing.T) {
	t.Helper()
	family := host.ReadProcessTable().Family(os.Getpid())
	if left := slices.DeleteFunc(family, func(pid int) bool { return pid == os.Getpid() }); len(left) > 0 {
		t.Errorf("the processes %v are left", left)
	}
}
