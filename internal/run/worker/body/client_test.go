package body

import (
	"crypto/x509"
	"fmt"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/stack"
)

func TestPacingIsNotTheStacksCost(t *testing.T) {
	const ms = int64(time.Millisecond)
	for _, c := range []struct {
		user, system, spun int64
		want               time.Duration
	}{
		{user: 80 * ms, system: 20 * ms, spun: 0, want: 100 * time.Millisecond},
		{user: 80 * ms, system: 20 * ms, spun: 70 * ms, want: 30 * time.Millisecond},
		{user: 80 * ms, system: 20 * ms, spun: 90 * ms, want: 10 * time.Millisecond}, // the kernel's part of it
		{user: 80 * ms, system: 20 * ms, spun: 101 * ms, want: 0},
	} {
		u := probe.Window{Usage: probe.Usage{UserNS: c.user, SystemNS: c.system}}
		subtractPacing(&u, c.spun)
		if u.CPU() != c.want || u.UserNS < 0 || u.SystemNS < 0 {
			t.Errorf("%+v: %d and %d ns are left", c, u.UserNS, u.SystemNS)
		}
	}
}

func TestBadLoads(t *testing.T) {
	for name, l := range map[string]worker.Load{
		"no model":       {},
		"no such model":  {Model: "poisson"},
		"no arrivals":    {Model: "open", RatePerSecond: 1},
		"other arrivals": {Model: "open", RatePerSecond: 1, Arrivals: "uniform"},
	} {
		s := task{Spec: worker.Spec{Client: &worker.ClientSpec{Clients: 1, Load: l}}}
		if _, err := s.loadPlan(nil, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestFailuresAreToldApart has the same code with two classes, and the same
// class with two codes.
func TestFailuresAreToldApart(t *testing.T) {
	reset := fmt.Errorf("read: %w", syscall.ECONNRESET)
	for _, c := range []struct {
		err         error
		code, class string
	}{
		{stack.Fail(codes.Unavailable, reset), "Unavailable", "reset"},
		{stack.Fail(codes.Unavailable, syscall.EADDRNOTAVAIL), "Unavailable", "port-exhaustion"},
		{stack.Fail(codes.DeadlineExceeded, reset), "DeadlineExceeded", "reset"},
		{status.Error(codes.Unavailable, "closed for lunch"), "Unavailable", "application"},
		{status.Error(codes.Code(99), "who knows"), "Code(99)", "application"},
		{fmt.Errorf("%w: one bit", load.ErrWrongAnswer), "WrongAnswer", "wrong-answer"},
		{stack.Fail(codes.Unavailable, x509.UnknownAuthorityError{}), "Unavailable", "certificate: unknown authority"},
	} {
		got := classifyError(c.err)
		if want := (record.ErrorCount{Class: c.class, Code: c.code}); got != want {
			t.Errorf("%v is counted as %+v, want %+v", c.err, got, want)
		}
	}
}
