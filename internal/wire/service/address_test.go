package service

import (
	"slices"
	"strings"
	"testing"
)

func TestAddressRules(t *testing.T) {
	for _, c := range []struct {
		rules AddressRules
		want  []string
	}{
		{AddressRules{}, []string{"shop.test:443"}},
		{AddressRules{ConnectTo: []string{"shop.test:443:127.0.0.1:8443"}}, []string{"127.0.0.1:8443"}},
		{AddressRules{ConnectTo: []string{"::127.0.0.1:"}}, []string{"127.0.0.1:443"}},
		{AddressRules{ConnectTo: []string{"::127.0.0.1"}}, []string{"127.0.0.1:443"}},
		{AddressRules{ConnectTo: []string{":::8443"}}, []string{"shop.test:8443"}},
		{AddressRules{ConnectTo: []string{"SHOP.test::[::1]:1"}}, []string{"[::1]:1"}},
		{AddressRules{ConnectTo: []string{"a.test:443:b:1", "shop.test:443:c:2", "::d:3"}}, []string{"c:2"}},
		{AddressRules{Resolve: []string{"shop.test:80:127.0.0.1", "+shop.test:443:127.0.0.2,[::1],::2"}}, []string{"127.0.0.2:443", "[::1]:443", "[::2]:443"}},
		{AddressRules{Resolve: []string{"*:443:127.0.0.1"}}, []string{"127.0.0.1:443"}},
		{AddressRules{Resolve: []string{"*:443:127.0.0.1", "shop.test:443:127.0.0.2"}}, []string{"127.0.0.2:443"}},
		{AddressRules{ConnectTo: []string{"::b.test:99"}, Resolve: []string{"b.test:99:127.0.0.1"}}, []string{"127.0.0.1:99"}},
	} {
		target := Target{Host: "shop.test", Port: "443"}
		if err := c.rules.Apply(&target); err != nil || !slices.Equal(target.Dialled(), c.want) {
			t.Errorf("%+v: %q, %v; want %q", c.rules, target.Dialled(), err, c.want)
		}
	}
}

func TestAddressRulesRefuse(t *testing.T) {
	for _, c := range []struct {
		rules  AddressRules
		socket string
		want   string
	}{
		{AddressRules{ConnectTo: []string{"shop.test:443"}}, "", `--connect-to: found "shop.test:443": want HOST1:PORT1:HOST2:PORT2`},
		{AddressRules{ConnectTo: []string{"::[::1:443"}}, "", `--connect-to: found "::[::1:443"`},
		{AddressRules{ConnectTo: []string{"::a:x"}}, "", `--connect-to: found "::a:x"`},
		{AddressRules{ConnectTo: []string{"::a:70000"}}, "", `--connect-to: found "::a:70000"`},
		{AddressRules{Resolve: []string{"shop.test:443:b.test"}}, "", `--resolve: found "shop.test:443:b.test": want HOST:PORT:ADDRESS`},
		{AddressRules{Resolve: []string{"shop.test:127.0.0.1"}}, "", `--resolve: found "shop.test:127.0.0.1"`},
		{AddressRules{Resolve: []string{"[::1:443:127.0.0.1"}}, "", `--resolve: found "[::1:443:127.0.0.1"`},
		{AddressRules{Resolve: []string{"a.test:443:127.0.0.1"}}, "", "--resolve a.test:443:127.0.0.1: the target is shop.test:443: want its host and port"},
		{AddressRules{ConnectTo: []string{"::a:1"}}, "/run/x", "--connect-to ::a:1: calls go to the unix socket /run/x"},
	} {
		target := Target{Host: "shop.test", Port: "443", Socket: c.socket}
		if err := c.rules.Apply(&target); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.rules, err, c.want)
		}
	}
}

// Any text is refused, or names an address to connect to.
func FuzzAddressRules(f *testing.F) {
	for _, text := range []string{"::127.0.0.1:", "a:1:[::1]:2", "[::1]:443:127.0.0.1,::2", "*:1:[::1]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, rules := range []AddressRules{{ConnectTo: []string{text}}, {Resolve: []string{text}}, {Server: text, ConnectTo: []string{"::a.test:"}}} {
			target := Target{Host: "::1", Port: "443"}
			if rules.Apply(&target) != nil {
				continue
			}
			for _, address := range target.Dial {
				if !strings.Contains(address, ":") {
					t.Errorf("%q: connects to %q", text, address)
				}
			}
		}
	})
}
