package fake

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/echo"
	"wirelab.dev/internal/wire/workload/echo/echopb"
)

var _ = stacktest.Skips{
	{Stack: "fake", Suite: "Run", Reason: "it has no wire, and answers only with the request itself"},
	{Stack: "fake", Suite: "RunSecurity", Reason: "it has no TLS"},
	{Stack: "fake", Suite: "RunLeaks", Reason: "it cannot answer the suite's calls, whose response is of another type than their request"},
}

func variant(t testing.TB, text string) scenario.Variant {
	t.Helper()
	v, err := scenario.ParseVariant(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// scripted is a client without connections.
func scripted(t testing.TB, text string) *client {
	t.Helper()
	s, err := parseScript(variant(t, text))
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(s, &conn.Dialer{})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// caller is the echo workload over a client.
func caller(c *client) interface {
	workload.Caller
	Check() error
} {
	job := workload.Job{Parameters: workload.Parameters{RequestBytes: 64, ResponseBytes: 64}}
	return echo.Workload{}.NewCaller(c, job).(interface {
		workload.Caller
		Check() error
	})
}

func TestScriptDue(t *testing.T) {
	ms := int64(time.Millisecond)
	for _, c := range []struct {
		variant  string
		now, due int64
	}{
		{"fake", 5 * ms, 5 * ms},
		{"fake:delay=5ms", 1 * ms, 6 * ms},
		{"fake:stall=100ms", 3000 * ms, 3100 * ms},
		{"fake:stall=100ms", 3099*ms + 1, 3100 * ms},
		{"fake:stall=100ms", 3100 * ms, 3100 * ms},
		{"fake:stall=100ms", 3999 * ms, 3999 * ms},
		{"fake:stall=10ms,every=50ms", 155 * ms, 160 * ms},
		{"fake:stall=10ms,every=50ms", -45 * ms, -40 * ms},
		{"fake:stall=10ms,every=50ms", -5 * ms, -5 * ms},
		{"fake:stall=10ms,every=50ms,delay=2ms", 155 * ms, 162 * ms},
	} {
		s, err := parseScript(variant(t, c.variant))
		if err != nil {
			t.Fatal(err)
		}
		if due := s.answerTime(c.now); due != c.due {
			t.Errorf("%s: a call at %v is due at %v, want %v", c.variant, time.Duration(c.now), time.Duration(due), time.Duration(c.due))
		}
	}
}

func TestScriptRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"fake:delay=5":                 "as in 5ms",
		"fake:every=2s":                "stall is set",
		"fake:stall=1s":                "must be shorter than every",
		"fake:fail-every=0":            "whole number from 1",
		"fake:stall=20ms,every=10ms":   "must be shorter than every",
		"fake:delay=-1s,hang-after=ab": "hang-after",
	} {
		_, err := Stack{}.NewServer(variant(t, text))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that says %q", text, err, says)
		}
	}
}

// TestFaultsCome counts what the echo workload sees of 60 calls.
func TestFaultsCome(t *testing.T) {
	for _, c := range []struct {
		variant             string
		good, failed, wrong int
	}{
		{"fake", 60, 0, 0},
		{"fake:fail-every=7", 52, 8, 0},
		{"fake:corrupt-every=10", 54, 0, 6},
		{"fake:fail-every=6,corrupt-every=4", 60 - 10 - 10, 10, 10}, // 12, 24, … fail before they can be wrong
	} {
		client := scripted(t, c.variant)
		caller := caller(client)
		var good, failed, wrong int
		for range 60 {
			err := caller.Call(t.Context())
			switch {
			case status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "fail-every"):
				failed++
			case err != nil:
				t.Errorf("%s: %v", c.variant, err)
			case caller.Check() != nil:
				wrong++
			default:
				good++
			}
		}
		if good != c.good || failed != c.failed || wrong != c.wrong {
			t.Errorf("%s: %d good, %d failed, %d wrong; want %d, %d, %d", c.variant, good, failed, wrong, c.good, c.failed, c.wrong)
		}
	}
}

// TestCorruptAnswerIsOnlyOneBitOff: a check of lengths and ids alone must not
// find it, and the request must stay as it was.
func TestCorruptAnswerIsOnlyOneBitOff(t *testing.T) {
	c := scripted(t, "fake:corrupt-every=1")
	in := &echopb.Payload{Id: 3, Data: []byte{1, 2, 3}}
	out, err := echopb.NewEchoServiceClient(c).Echo(t.Context(), in)
	if err != nil || out.Id != 3 || !slices.Equal(out.Data, []byte{1, 2, 2}) || !slices.Equal(in.Data, []byte{1, 2, 3}) {
		t.Errorf("%v became %v, %v", in, out, err)
	}
	out, err = echopb.NewEchoServiceClient(c).Echo(t.Context(), &echopb.Payload{Id: 3})
	if err != nil || out.Id != 0 {
		t.Errorf("an answer without bytes became %v, %v", out, err)
	}
}

func TestOtherTypesAreRefused(t *testing.T) {
	c := scripted(t, "fake")
	stub := testpb.NewTestServiceClient(c)
	if _, err := stub.Unary(t.Context(), &testpb.TestRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("Unary: %v, want Unimplemented", err)
	}
	if _, err := stub.Bidi(t.Context()); status.Code(err) != codes.Unimplemented {
		t.Errorf("Bidi: %v, want Unimplemented", err)
	}
	if err := stack.CheckKind(Stack{}, scenario.Variant{}, stack.Bidi); !errors.Is(err, stack.ErrUnsupported) {
		t.Errorf("Lacks says %v", err)
	}
}

// TestHang lets two calls pass and wants the third to end with its caller.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := scripted(t, "fake:hang-after=2")
		caller := caller(c)
		begin := time.Now()
		for range 2 {
			if err := caller.Call(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := caller.Call(ctx); status.Code(err) != codes.DeadlineExceeded || time.Since(begin) != time.Minute {
			t.Errorf("the third call ended with %v after %v", err, time.Since(begin))
		}
	})
}

// TestDelayInTheBubble has hundreds of calls wait at the same time, more than
// the timekeeper's line holds, on a clock that is exact.
func TestDelayInTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := scripted(t, "fake:delay=5ms")
		begin := time.Now()
		var calls sync.WaitGroup
		for i := range 2 * queueLength {
			calls.Go(func() {
				time.Sleep(time.Duration(i) * time.Microsecond)
				start := time.Now()
				if err := caller(c).Call(t.Context()); err != nil {
					t.Errorf("call %d: %v", i, err)
				}
				if took := time.Since(start); took != 5*time.Millisecond {
					t.Errorf("call %d took %v", i, took)
				}
			})
		}
		calls.Wait()
		if took, want := time.Since(begin), 5*time.Millisecond+(2*queueLength-1)*time.Microsecond; took != want {
			t.Errorf("all calls took %v, want %v", took, want)
		}
	})
}

func TestStallInTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := scripted(t, "fake:stall=100ms,every=1s")
		time.Sleep(time.Duration(int64(time.Second) - clock.Now()%int64(time.Second))) // to the beginning of a period
		begin := time.Now()
		var calls sync.WaitGroup
		for at := time.Duration(0); at < 2*time.Second; at += 30 * time.Millisecond {
			calls.Go(func() {
				time.Sleep(at)
				if err := caller(c).Call(t.Context()); err != nil {
					t.Error(err)
				}
				want := max(at, at.Truncate(time.Second)+100*time.Millisecond)
				if ended := time.Since(begin); ended != want {
					t.Errorf("a call at %v ended at %v, want %v", at, ended, want)
				}
			})
		}
		calls.Wait()
	})
}

func TestCloseEndsWaitingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := scripted(t, "fake:delay=1h")
		ended := make(chan error, 2)
		for range 2 {
			go func() { ended <- caller(c).Call(context.Background()) }()
		}
		synctest.Wait()
		_ = c.Close()
		for range 2 {
			if err := <-ended; status.Code(err) != codes.Canceled {
				t.Errorf("a call on a client that was closed ended with %v", err)
			}
		}
	})
}

func TestEndedCallsAreRefused(t *testing.T) {
	c := scripted(t, "fake")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := caller(c).Call(ctx); status.Code(err) != codes.Canceled {
		t.Errorf("a cancelled call ended with %v", err)
	}
	_ = c.Close()
	if err := caller(c).Call(t.Context()); status.Code(err) != codes.Canceled {
		t.Errorf("a call on a closed client ended with %v", err)
	}
}

// TestDelayIsNeverShort waits on the real clock, whose timers must end no call too soon.
// TestDelayInTheBubble sees that the fake makes no call late; how late the machine makes
// them is for BenchmarkDelay to print.
func TestDelayIsNeverShort(t *testing.T) {
	const delay = 5 * time.Millisecond
	c := scripted(t, "fake:delay=5ms")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			caller := caller(c)
			for range 40 {
				start := time.Now()
				if err := caller.Call(t.Context()); err != nil {
					t.Error(err)
					return
				}
				if took := time.Since(start); took < delay {
					t.Errorf("a delay of 5 ms was over after %v", took)
				}
			}
		})
	}
	all.Wait()
}

// The option parallel is a capacity: 400 calls of 1 ms, 4 at a time, take
// 100 ms, however many callers there are.
func TestParallelIsACapacity(t *testing.T) {
	c := scripted(t, "fake:delay=1ms,parallel=4")
	begin := time.Now()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 20 {
				if err := caller(c).Call(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if took := time.Since(begin); took < 99*time.Millisecond {
		t.Errorf("400 calls of 1 ms, 4 at a time, took %v", took)
	}
	if _, err := parseScript(variant(t, "fake:parallel=4")); err == nil {
		t.Error("a bound on calls that take no time was accepted")
	}
}
