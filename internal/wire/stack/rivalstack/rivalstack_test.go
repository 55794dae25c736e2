package rivalstack_test

import (
	"errors"
	"strings"
	"testing"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/rivalstack"
)

// wirelab itself checks a variant, and says where the stack is.
func TestTheStacksAreElsewhere(t *testing.T) {
	for _, s := range []rivalstack.Stack{rivalstack.Kitex, rivalstack.DRPC, rivalstack.TTRPC, rivalstack.RPCX} {
		v := scenario.Variant{Stack: s.Info().Name}
		server, err := s.NewServer(v)
		if err != nil {
			t.Fatal(err)
		}
		_, err = server.Listen(t.Context(), "127.0.0.1:0")
		_, refused := s.NewClient(t.Context(), v, stack.Target{})
		for _, err := range []error{err, refused} {
			if !errors.Is(err, stack.ErrUnsupported) || !strings.Contains(err.Error(), "wirelab peers build rivals") {
				t.Errorf("%s: %v", v, err)
			}
		}
		if _, err := s.NewServer(v.With("certificate", "rsa")); err == nil {
			t.Errorf("%s takes an option that it lacks", v)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestKindsOfCall(t *testing.T) {
	for text, streams := range map[string]bool{"kitex": true, "kitex:framing=mux": false, "drpc": true, "ttrpc": true, "rpcx": false} {
		v, err := scenario.ParseVariant(text)
		if err != nil {
			t.Fatal(err)
		}
		s := map[string]rivalstack.Stack{"kitex": rivalstack.Kitex, "drpc": rivalstack.DRPC, "ttrpc": rivalstack.TTRPC, "rpcx": rivalstack.RPCX}[v.Stack]
		if err := s.CheckKind(v, stack.Unary); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if err := s.CheckKind(v, stack.Bidi); (err == nil) != streams || err != nil && !errors.Is(err, stack.ErrUnsupported) {
			t.Errorf("%s: bidirectional streams: %v", text, err)
		}
	}
}

func TestThePoolSetsTheConnections(t *testing.T) {
	if _, fixed := rivalstack.DRPC.ConnectionFor(scenario.Variant{Stack: "drpc"}); fixed {
		t.Error("drpc sets its connection mode without an option")
	}
	mode, fixed := rivalstack.DRPC.ConnectionFor(scenario.Variant{Stack: "drpc"}.With(rivalstack.PoolKey, "on"))
	if mode.Mode != scenario.Auto || !fixed {
		t.Errorf("drpc:pool=on has the mode %s, fixed: %v", mode, fixed)
	}
}
