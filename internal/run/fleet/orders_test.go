package fleet

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"wirelab.dev/internal/run/worker"
)

// newKey makes a key to sign orders with.
func newKey(t testing.TB) (key nkeys.KeyPair, public string) {
	t.Helper()
	key, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = key.PublicKey(); err != nil {
		t.Fatal(err)
	}
	return key, public
}

func signed(t testing.TB, o controllerOrder, key nkeys.KeyPair) []byte {
	t.Helper()
	message, err := signOrder(o, key)
	if err != nil {
		t.Fatal(err)
	}
	return message
}

func TestDoorkeeper(t *testing.T) {
	key, public := newKey(t)
	stranger, _ := newKey(t)
	good := controllerOrder{Agent: "a", Session: "s", Run: "r", Number: 1, Do: renewAgent}
	change := func(how func(*controllerOrder)) controllerOrder { o := good; how(&o); return o }
	for name, c := range map[string]struct {
		message []byte
		want    string
	}{
		"good":            {signed(t, good, key), ""},
		"a stranger's":    {signed(t, good, stranger), "not signed"},
		"another agent's": {signed(t, change(func(o *controllerOrder) { o.Agent = "b" }), key), `for the agent "b"`},
		"another session": {signed(t, change(func(o *controllerOrder) { o.Session = "old" }), key), "earlier session"},
		"no run":          {signed(t, change(func(o *controllerOrder) { o.Run = "" }), key), "does not name its run"},
		"number 0":        {signed(t, change(func(o *controllerOrder) { o.Number = 0 }), key), "sent before"},
		"nothing":         {nil, "not a signed order"},
		"no JSON":         {[]byte("start /bin/sh"), "not a signed order"},
		"not signed":      {[]byte(`{"order":{"do":"start"}}`), "not signed"},
	} {
		door, err := newOrderChecker("a", "s", public)
		if err != nil {
			t.Fatal(err)
		}
		o, err := door.checkOrder(c.message)
		switch {
		case c.want == "" && (err != nil || o.Do != renewAgent):
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Each order is let in once, whatever else came between, and other runs have their own numbers.
func TestDoorkeeperLetsInOnce(t *testing.T) {
	key, public := newKey(t)
	door, err := newOrderChecker("a", "s", public)
	if err != nil {
		t.Fatal(err)
	}
	message := func(run string, number uint64) []byte {
		return signed(t, controllerOrder{Agent: "a", Session: "s", Run: run, Number: number, Do: renewAgent}, key)
	}
	for i, step := range []struct {
		message []byte
		lets    bool
	}{
		{message("r", 1), true},
		{message("r", 2), true},
		{message("r", 2), false},
		{message("r", 1), false},
		{message("q", 1), true},
		{message("r", 3), true},
		{message("q", 1), false},
		{message("q", 9), true},
		{message("q", 8), false},
	} {
		if _, err := door.checkOrder(step.message); (err == nil) != step.lets {
			t.Errorf("step %d: %v", i, err)
		}
	}
}

// A signed message that was changed in any place is refused.
func TestNoByteOfAnOrderCanBeChanged(t *testing.T) {
	key, public := newKey(t)
	message := signed(t, controllerOrder{Agent: "a", Session: "s", Run: "r", Number: 7, Do: startVerb, Program: "aa", Spec: &worker.Spec{Stack: "tcp"}}, key)
	for i := range message {
		door, err := newOrderChecker("a", "s", public)
		if err != nil {
			t.Fatal(err)
		}
		changed := append([]byte{}, message...)
		changed[i] ^= 1
		o, err := door.checkOrder(changed)
		if err != nil {
			continue
		}
		// White space, or the name of a field in other case, may change what was sent around the order.
		if o.Number != 7 || o.Do != startVerb || o.Program != "aa" || o.Spec.Stack != "tcp" {
			t.Fatalf("byte %d changed: %s was let in as %+v", i, changed, o)
		}
	}
}

func FuzzDoorkeeper(f *testing.F) {
	key, public := newKey(f)
	f.Add(signed(f, controllerOrder{Agent: "a", Session: "s", Run: "r", Number: 1, Do: claimAgent, LeaseNS: 1}, key))
	f.Add([]byte(`{"order":null,"signature":""}`))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, message []byte) {
		door, err := newOrderChecker("a", "s", public)
		if err != nil {
			t.Fatal(err)
		}
		o, err := door.checkOrder(message)
		if err != nil {
			return
		}
		var s signedOrder
		if json.Unmarshal(message, &s) != nil || key.Verify(s.Order, s.Signature) != nil || o.Agent != "a" {
			t.Errorf("%q was let in", message)
		}
	})
}
