package connectstack_test

import (
	"testing"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/stack/connectstack"
	"wirelab.dev/internal/stack/stacktest"
)

func TestSuite(t *testing.T) {
	for text, s := range map[string]connectstack.Stack{
		"grpc-h3":        connectstack.GRPC3,
		"connect":        connectstack.Connect,
		"connect:tls=on": connectstack.Connect,
	} {
		for name, lifecycle := range map[string]stack.Lifecycle{"kept": stack.Kept, "fresh": stack.Fresh, "resumed": stack.Resumed, "0rtt": stack.Early} {
			variant, err := scenario.ParseVariant(text)
			if err != nil {
				t.Fatal(err)
			}
			if err := stack.LacksLifecycle(s, variant, lifecycle); err != nil {
				t.Logf("%s %s: %v", text, name, err)
				continue
			}
			t.Run(text+"/"+name, func(t *testing.T) {
				stacktest.Run(t, stacktest.Subject{Stack: s, Variant: variant, Lifecycle: lifecycle, Datagrams: s.Name() == "grpc-h3"})
			})
		}
	}
}
