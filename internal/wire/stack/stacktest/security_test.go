package stacktest

import (
	"context"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/grpcstack"
)

// insecure is a good stack that is broken in one place.
type insecure struct {
	grpcGo
	credulous bool // trusts anyone
	flattens  bool // leaves of an error its text
	leaks     bool // opens what nobody closes
}

func (i insecure) NewClient(ctx context.Context, v scenario.Variant, target stack.Target) (stack.Client, error) {
	target.Trust.SkipVerify = target.Trust.SkipVerify || i.credulous
	client, err := grpcstack.Stack.NewClient(ctx, v, target)
	if err != nil && i.flattens {
		err = status.Error(codes.Unavailable, err.Error())
	}
	if err == nil && i.leaks {
		return leaky{client}, nil
	}
	return client, err
}

// leaky opens a file with its end.
type leaky struct{ stack.Client }

var leaked []*os.File // kept from the collector, which would close it

func (l leaky) Close() error {
	file, err := os.Open(os.DevNull)
	if err == nil {
		leaked = append(leaked, file)
	}
	return l.Client.Close()
}

func TestSecurityChecksFindFaults(t *testing.T) {
	for _, c := range []struct {
		check string
		with  insecure
		says  string
	}{
		{"certificate/unknown-authority", insecure{credulous: true}, "succeeded, want an error"},
		{"certificate/expired", insecure{flattens: true}, `of class "application"`},
		{"certificate/wrong-name", insecure{flattens: true}, `of class "application"`},
		{"handshake/never-answered", insecure{flattens: true}, `of class "application"`},
		{"plaintext/client", insecure{flattens: true}, `of class "application"`},
		{"plaintext/server", insecure{flattens: true}, `of class "application"`},
	} {
		checks := securityChecks()
		run := checks[slices.IndexFunc(checks, func(one check) bool { return one.name == c.check })]
		if failures := recordSecurity(t, run, insecure{}); len(failures) > 0 {
			t.Errorf("the unbroken stack fails %s: %v", c.check, failures)
		}
		failures := recordSecurity(t, run, c.with)
		if !slices.ContainsFunc(failures, func(f string) bool { return strings.Contains(f, c.says) }) {
			t.Errorf("%s does not see %+v; its failures: %q", c.check, c.with, failures)
		}
	}
}

// TestLeaksAreSeen is not parallel: descriptors are the whole process's.
func TestLeaksAreSeen(t *testing.T) {
	leak := check{"leak", checkLeaks}
	if failures := recordSecurity(t, leak, insecure{}); len(failures) > 0 {
		t.Errorf("the unbroken stack leaks: %v", failures)
	}
	failures := recordSecurity(t, leak, insecure{leaks: true})
	if !slices.ContainsFunc(failures, func(f string) bool { return strings.Contains(f, "file descriptors before") }) {
		t.Errorf("a file is left open with every client, and the check finds %q", failures)
	}
}

func recordSecurity(t *testing.T, c check, s stack.Stack) []string {
	t.Helper()
	r := &recorder{TB: t, known: !reflect.ValueOf(s).IsZero()}
	variant := scenario.Variant{Stack: "grpc"}.With("tls", "on")
	r.run(func() { runGuarded(r, Subject{Stack: s, Variant: variant}, c) })
	return r.failures
}
