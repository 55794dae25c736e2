package connectstack_test

import (
	"testing"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/connectstack"
	"wirelab.dev/internal/wire/stack/stacktest"
)

func TestSuite(t *testing.T) {
	for _, text := range []string{"grpc-h3", "connect", "connect:tls=on"} {
		for name, lifecycle := range map[string]conn.Lifecycle{"kept": conn.Kept, "fresh": conn.Fresh, "resumed": conn.Resumed, "0rtt": conn.Early} {
			subject := subjectOf(t, text)
			if err := stack.CheckLifecycle(subject.Stack, subject.Variant, lifecycle); err != nil {
				t.Logf("%s %s: %v", text, name, err)
				continue
			}
			subject.Lifecycle = lifecycle
			t.Run(text+"/"+name, func(t *testing.T) { stacktest.Run(t, subject) })
		}
	}
}

func TestSecurity(t *testing.T) {
	for _, text := range []string{"grpc-h3", "grpc-h3:handshakes=2", "connect:tls=on", "connect:tls=on,handshakes=2"} {
		t.Run(text, func(t *testing.T) { stacktest.RunSecurity(t, subjectOf(t, text)) })
	}
}

func TestNothingLeaks(t *testing.T) {
	for _, text := range []string{"grpc-h3", "grpc-h3:handshakes=2", "connect", "connect:tls=on"} {
		t.Run(text, func(t *testing.T) { stacktest.RunLeaks(t, subjectOf(t, text)) })
	}
}

func subjectOf(t *testing.T, text string) stacktest.Subject {
	t.Helper()
	variant, err := scenario.ParseVariant(text)
	if err != nil {
		t.Fatal(err)
	}
	if variant.Stack == connectstack.GRPC3.Info().Name {
		return stacktest.Subject{Stack: connectstack.GRPC3, Variant: variant, Datagrams: true}
	}
	return stacktest.Subject{Stack: connectstack.Connect, Variant: variant}
}
