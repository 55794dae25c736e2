package service_test

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/dnstest"
)

// TestLookUp asks a name server for several addresses, of both versions of IP, and one of them twice.
func TestLookUp(t *testing.T) {
	t.Parallel()
	server := dnstest.Serve(t, "127.0.0.1", "127.0.0.2", "127.0.0.1", "::1")
	l := service.LookUp{Names: []string{dnstest.Name + ":80"}, Server: server.Address}
	found, err := l.Find(t.Context())
	if want := []string{"127.0.0.1:80", "127.0.0.2:80", "[::1]:80"}; err != nil || !sameItems(found, want) {
		t.Errorf("found %q, %v; want %q", found, err, want)
	}
	server.Fail()
	where := " at the name server " + server.Address
	if _, err := l.Find(t.Context()); err == nil || !strings.Contains(err.Error(), "found no address for the host "+dnstest.Name+where) {
		t.Errorf("a server that fails: %v", err)
	}
	l.Names = []string{"other.test:80"}
	if _, err := l.Find(t.Context()); err == nil || !strings.Contains(err.Error(), "other.test"+where+": no such host: check the name") {
		t.Errorf("a name that does not exist: %v", err)
	}
	gone, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	l.Server = gone.LocalAddr().String()
	if _, err := l.Find(t.Context()); err == nil || !strings.Contains(err.Error(), " at the name server "+l.Server+": ") {
		t.Errorf("no name server: %v", err)
	}
}

func sameItems(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// TestLookUpRules has options that make no sense for a target.
func TestLookUpRules(t *testing.T) {
	for _, c := range []struct {
		target string
		rules  service.AddressRules
		want   string // of the error; empty: none
	}{
		{"http://shop.test/", service.AddressRules{Every: time.Second, Policy: service.AllAddresses}, ""},
		{"http://shop.test/", service.AddressRules{Server: "10.0.0.10"}, ""},
		{"http://shop.test/", service.AddressRules{Server: "[fd00::1]"}, ""},
		{"http://127.0.0.1/", service.AddressRules{Server: "127.0.0.1:53", ConnectTo: []string{"::shop.test:80"}}, ""},
		{"http://shop.test/", service.AddressRules{Every: time.Second, Policy: service.FirstAddress}, "--lookup-every 1s: only one address gets requests: add --addresses all or least"},
		{"http://shop.test/", service.AddressRules{Every: -time.Second, Policy: service.AllAddresses}, "--lookup-every -1s: want a duration of at least 10ms"},
		{"http://127.0.0.1/", service.AddressRules{Every: time.Second, Policy: service.AllAddresses}, "--lookup-every 1s: requests go to 127.0.0.1:80, which has no name to look up"},
		{"http://[::1]/", service.AddressRules{Server: "127.0.0.1"}, "--dns 127.0.0.1: requests go to [::1]:80, which has no name to look up"},
		{"http://shop.test/", service.AddressRules{Every: time.Second, Policy: service.AllAddresses, Resolve: []string{"shop.test:80:127.0.0.1"}}, "requests go to 127.0.0.1:80, which has no name"},
		{"http://shop.test/", service.AddressRules{Server: "127.0.0.1", ConnectTo: []string{"::127.0.0.2:81"}}, "requests go to 127.0.0.2:81, which has no name"},
		{"http://shop.test/", service.AddressRules{Server: "dns.test"}, `--dns: found "dns.test": want the address of a name server`},
		{"http://shop.test/", service.AddressRules{Server: "127.0.0.1:0"}, `--dns: found "127.0.0.1:0": want the address`},
		{"unix:/run/x", service.AddressRules{Server: "127.0.0.1"}, "--dns 127.0.0.1: calls go to the unix socket /run/x"},
	} {
		target, err := service.ParseTarget(c.target, "http")
		if err != nil {
			t.Fatal(err)
		}
		err = c.rules.Apply(&target, &service.Target{})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s with %+v: %v; want %q", c.target, c.rules, err, c.want)
		}
		if l := target.LookUp(); c.want == "" && (l.Every != c.rules.Every || (l.Server == "") != (c.rules.Server == "")) {
			t.Errorf("%s with %+v is looked up as %+v", c.target, c.rules, l)
		}
	}
}
