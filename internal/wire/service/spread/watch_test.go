package spread_test

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/catalog"
	"wirelab.dev/internal/wire/service/dnstest"
)

// newNamedFarm returns a farm whose servers have one port, so that a name can have all their addresses.
// The name has the first address.
func newNamedFarm(t *testing.T, wire service.Wire) (*farm, *dnstest.Server) {
	t.Helper()
	f := newFarm(t, wire, wire == service.HTTP3)
	f.serve(t, hosts[0])
	_, port, _ := net.SplitHostPort(f.Definition.Addresses.All[0])
	f.port = port
	for _, host := range hosts[1:] {
		f.serve(t, host)
	}
	dns := dnstest.Serve(t, hosts[0])
	f.Definition.Addresses.All = f.Definition.Addresses.All[:1]
	f.Definition.Addresses.LookUp = &service.LookUp{Names: []string{dnstest.Name + ":" + port}, Server: dns.Address, Every: minEvery}
	return f, dns
}

const minEvery = 10 * time.Millisecond

// TestAddressesChange has a name with one address, then with two, and then only with the second one.
// Callers call all the time. No call may fail, the callers' counts must be those of the servers, and each
// address must get calls while the name has it, and then no more.
func TestAddressesChange(t *testing.T) {
	t.Parallel()
	const callers = 4
	for _, wire := range []service.Wire{service.HTTP1, service.HTTP2, service.HTTP3, service.GRPC} {
		for name, plan := range map[string]service.Plan{"own": {Connections: callers}, "shared": {Connections: 1}, "new": {Lifecycle: conn.Fresh}} {
			if wire == service.HTTP1 && name == "shared" {
				continue // it has one connection, and so one address
			}
			t.Run(string(wire)+"/"+name, func(t *testing.T) {
				t.Parallel()
				f, dns := newNamedFarm(t, wire)
				own := plan
				own.Definition, own.Callers = f.Definition, callers
				client := open(t, own)
				var end atomic.Bool
				var calling sync.WaitGroup
				var guard sync.Mutex
				counts := map[string]int64{}
				for number := range callers {
					calling.Go(func() {
						caller := f.NewCaller(client, f.FixedSource(service.Share{Number: number, Of: callers}))
						for !end.Load() {
							if err := caller.Call(t.Context()); err != nil {
								t.Error(err)
							}
							guard.Lock()
							counts[caller.Address()]++
							guard.Unlock()
						}
					})
				}
				handled := func(host string) int64 { return f.servers[net.JoinHostPort(host, f.port)].handled.Load() }
				// more waits until the server of a host has handled further calls.
				more := func(host string) {
					for at := handled(host); handled(host) < at+2*callers; {
						time.Sleep(time.Millisecond)
					}
				}
				more(hosts[0])
				dns.Set(hosts[0], hosts[1])
				more(hosts[1])
				more(hosts[0])
				dns.Set(hosts[1])
				for since := dns.Asked(); dns.Asked() < since+3; { // the last look-up but one has ended
					time.Sleep(time.Millisecond)
				}
				guard.Lock()
				left := counts[net.JoinHostPort(hosts[0], f.port)]
				guard.Unlock()
				more(hosts[1])
				guard.Lock()
				if now := counts[net.JoinHostPort(hosts[0], f.port)]; now > left+callers { // calls that were under way
					t.Errorf("the address that left had %d calls, and then %d", left, now)
				}
				guard.Unlock()
				end.Store(true)
				calling.Wait()
				for _, host := range hosts {
					if address := net.JoinHostPort(host, f.port); handled(host) != counts[address] {
						t.Errorf("%s handled %d calls, and the callers count %d", address, handled(host), counts[address])
					}
				}
				a := client.(service.Counted).Addresses()
				if l := a.LookUps; l.Changes != 2 || l.Failed != 0 || l.Done < 3 || len(a.All) != 2 {
					t.Errorf("%+v with the look-ups %+v: want 2 changes", a, l)
				}
			})
		}
	}
}

// TestCallsEndAtAnAddressThatLeft holds a call at an address, which leaves meanwhile: the call must end well.
func TestCallsEndAtAnAddressThatLeft(t *testing.T) {
	t.Parallel()
	for _, wire := range []service.Wire{service.HTTP1, service.HTTP2, service.GRPC} {
		f, dns := newNamedFarm(t, wire)
		server := f.servers[f.Definition.Addresses.All[0]]
		server.hold = make(chan struct{})
		client := open(t, service.Plan{Definition: f.Definition, Connections: 2, Callers: 2})
		var calling sync.WaitGroup
		calling.Go(func() {
			if counts := f.load(t, client, 1, 1); counts[f.Definition.Addresses.All[0]] != 1 {
				t.Errorf("%s: the call went to %v", wire, counts)
			}
		})
		<-server.calls
		dns.Set(hosts[1])
		awaitLookUps(client, func(l *record.LookUps) bool { return l.Changes == 1 })
		if counts := f.load(t, client, 1, 5); counts[net.JoinHostPort(hosts[1], f.port)] != 5 {
			t.Errorf("%s: the next calls went to %v", wire, counts)
		}
		close(server.hold)
		calling.Wait()
	}
}

// TestFailedLookUps has a name server that fails, one that finds a public address, and one that then finds
// the usual addresses again.
func TestFailedLookUps(t *testing.T) {
	t.Parallel()
	f, dns := newNamedFarm(t, service.HTTP1)
	client := open(t, service.Plan{Definition: f.Definition, Connections: 2, Callers: 2})
	first := f.Definition.Addresses.All[0]
	dns.Fail()
	awaitLookUps(client, func(l *record.LookUps) bool {
		return l.Failed > 0 && strings.Contains(l.Example, "found no address for the host "+dnstest.Name)
	})
	if counts := f.load(t, client, 2, 5); counts[first] != 10 {
		t.Errorf("with a name server that fails, the calls went to %v", counts)
	}
	dns.Set(hosts[0], "192.0.2.1") // RFC 5737: an address of documents
	failed := client.(service.Counted).Addresses().LookUps.Failed
	awaitLookUps(client, func(l *record.LookUps) bool { return l.Failed > failed+1 })
	if counts := f.load(t, client, 2, 5); counts[first] != 10 {
		t.Errorf("with a public address, the calls went to %v", counts)
	}
	dns.Set(hosts[1])
	awaitLookUps(client, func(l *record.LookUps) bool { return l.Changes == 1 })
	if counts := f.load(t, client, 2, 5); counts[net.JoinHostPort(hosts[1], f.port)] != 10 {
		t.Errorf("with a name server that works again, the calls went to %v", counts)
	}
	held := *f.Definition
	held.Holding = &service.Holding{InFlight: 1}
	_, err := catalog.Open(t.Context(), service.Plan{Definition: &held, Connections: 1, Callers: 1, Dialer: &conn.Dialer{}})
	if err == nil || !strings.Contains(err.Error(), "--lookup-every: held streams stay at their addresses") {
		t.Errorf("held streams: %v", err)
	}
}

// awaitLookUps waits until the counts of the look-ups are as they should be.
func awaitLookUps(client service.Client, are func(*record.LookUps) bool) {
	for !are(client.(service.Counted).Addresses().LookUps) {
		time.Sleep(time.Millisecond)
	}
}
