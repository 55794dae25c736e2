package hub

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"wirelab.dev/internal/run/fleet/protocol"
)

// credentials need no hub, whose goroutines would be noise to a fuzzer.
func credentials(t testing.TB) (agent, controller *protocol.Credentials) {
	t.Helper()
	k, err := openKeys(filepath.Join(t.TempDir(), "keys.json"), "mine")
	if err != nil {
		t.Fatal(err)
	}
	signs, err := newUserAuthority(k)
	if err != nil {
		t.Fatal(err)
	}
	h := &Hub{keys: k, authority: signs, tls: true, urls: []string{"tls://hub.example:4222", "tls://10.0.0.5:4222"}}
	if agent, err = h.issue(grant{role: protocol.RoleAgent, name: "a"}); err != nil {
		t.Fatal(err)
	}
	if controller, err = h.Controller(); err != nil {
		t.Fatal(err)
	}
	return agent, controller
}

func TestFleetToken(t *testing.T) {
	agent, controller := credentials(t)
	for _, c := range []*protocol.Credentials{agent, controller} {
		token := c.Token()
		got, err := protocol.ParseToken("\n " + token + "\n")
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, c) { // which would print only what is no secret
			t.Errorf("the token of the %s came back as another", c.Role)
		}
		if strings.ContainsAny(token, " \n'\"$&+/=") {
			t.Error("the token must be quoted in a shell")
		}
	}
	if agent.Role != protocol.RoleAgent || len(agent.OrdersSeed) > 0 || controller.Role != protocol.RoleController {
		t.Error("an agent must not be able to sign orders, and a controller must")
	}
}

// A token that is cut anywhere, or that has a changed character, is refused, and no error has a part
// of it.
func TestFleetTokenSpoilt(t *testing.T) {
	_, c := credentials(t)
	token := c.Token()
	check := func(what, text string) {
		t.Helper()
		_, err := protocol.ParseToken(text)
		if err == nil {
			t.Fatalf("%s: the token was taken", what)
		}
		const recognisable = 12
		for at := len("wl2."); at+recognisable <= len(text); at++ {
			if strings.Contains(err.Error(), text[at:at+recognisable]) {
				t.Fatalf("%s: the error repeats a part of the token", what)
			}
		}
	}
	for n := range len(token) {
		check(fmt.Sprintf("cut after %d", n), token[:n])
		other := byte('A')
		if token[n] == other {
			other = 'B'
		}
		check(fmt.Sprintf("other character %d", n), token[:n]+string(other)+token[n+1:])
	}
	check("long", token+strings.Repeat("A", 1<<20))
	if _, err := protocol.ParseToken("wl3." + token[4:]); err == nil || !strings.Contains(err.Error(), "another version") {
		t.Errorf("a later token: %v", err)
	}
}

// However credentials are printed, their secrets are not.
func TestFleetCredentialsArePrintedWithoutSecrets(t *testing.T) {
	_, c := credentials(t)
	text, err := json.Marshal(map[string]any{"pointer": c, "value": *c})
	if err != nil {
		t.Fatal(err)
	}
	all := string(text)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		all += fmt.Sprintf(verb, c) + fmt.Sprintf(verb, *c) + fmt.Sprintf(verb, struct{ C protocol.Credentials }{*c})
	}
	for _, secret := range []string{string(c.Seed), string(c.OrdersSeed), fmt.Sprintf("%x", c.Seed), fmt.Sprintf("%d", c.Seed)} {
		if strings.Contains(all, secret) {
			t.Errorf("a secret was printed")
		}
	}
	if !strings.Contains(all, "controller (project mine, tls://hub.example:4222") {
		t.Errorf("printed: %s", all)
	}
}

func TestFleetNames(t *testing.T) {
	for name, good := range map[string]bool{
		"a": true, "0": true, "client-1": true, "a_b": true, strings.Repeat("a", 63): true,
		"": false, "-a": false, "_a": false, "a.b": false, "A": false, "a b": false, "*": false, ">": false, "ä": false, "a\n": false, strings.Repeat("a", 64): false,
	} {
		if err := protocol.CheckName(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestFleetURLs(t *testing.T) {
	for at, want := range map[string]string{
		"nats://10.0.0.5:4222": "", "tls://hub.example:1": "", "tls://[::1]:4222": "", "tls://h:1/": "",
		"10.0.0.5:4222": "cannot be read", "http://a:1": "want nats://", "tls://a": "want nats://", "tls://:1": "want nats://",
		"tls://a:1/b": "want nats://", "tls://me:secret@a:1": "has a user or a password", "tls://a:1,tls://b:1": "want nats://", "\x00": "cannot be read",
	} {
		err := protocol.CheckURL(at)
		if (want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q: %v, want %q", at, err, want)
		}
	}
}

// FuzzParseToken: what is taken is good, and is the same when written again.
func FuzzParseToken(f *testing.F) {
	agent, controller := credentials(f)
	f.Add(agent.Token())
	f.Add(controller.Token())
	f.Add("wl2.")
	f.Add("wl3.AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := protocol.ParseToken(text)
		if err != nil {
			return
		}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		again, err := protocol.ParseToken(c.Token())
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("written again, it is another: %v", err)
		}
	})
}
