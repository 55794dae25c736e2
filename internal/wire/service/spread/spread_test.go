package spread_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/catalog"
	"wirelab.dev/internal/wire/service/spread"
)

// A farm is a service with one server per address.
type farm struct {
	*service.Definition
	identity *secure.Identity
	guard    sync.Mutex
	servers  map[string]*server
	port     string // of all servers; empty: each has one of its own
}

type server struct {
	handled atomic.Int64
	calls   chan struct{} // receives once, at the first call
	hold    chan struct{} // while not nil, calls wait for it
	close   func()
}

func newFarm(t *testing.T, wire service.Wire, secured bool) *farm {
	t.Helper()
	f := &farm{Definition: &service.Definition{Wire: wire, Network: "tcp", Authority: "elsewhere.invalid"}, servers: map[string]*server{}}
	f.Requests = []service.Request{{Method: http.MethodGet, Path: "/"}}
	if wire.IsGRPC() {
		f.Requests = []service.Request{{Path: "/test.Echo/One", Messages: [][]byte{[]byte("hi")}}}
	}
	f.Definition.Addresses = &service.Addresses{Policy: service.AllAddresses}
	if !secured {
		return f
	}
	var err error
	// The certificate has this name and no address: it is right only if the name is verified.
	if f.identity, err = secure.Issue(secure.Choice{}, secure.WrongName); err != nil {
		t.Fatal(err)
	}
	f.TLS = &service.TLS{ServerName: "elsewhere.invalid", Trust: secure.Trust{RootPEM: f.identity.RootPEM()}}
	return f
}

// serve starts a server at an address. It adds the address to the definition's.
func (f *farm) serve(t *testing.T, host string) *server {
	t.Helper()
	s := &server{calls: make(chan struct{}, 1)}
	count := func(name string) {
		if name != f.Authority {
			t.Errorf("a request names the server %q: want %q", name, f.Authority)
		}
		s.handled.Add(1)
		select {
		case s.calls <- struct{}{}:
		default:
		}
		if s.hold != nil {
			<-s.hold
		}
	}
	var address net.Addr
	switch f.Wire {
	case service.WebSocket:
		h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			count(r.Host)
			echo(w, r)
		}))
		_ = h.Listener.Close()
		h.Listener = f.listen(t, host)
		h.Start()
		s.close, address = h.Close, h.Listener.Addr()
	case service.GRPC:
		listener := f.listen(t, host)
		g := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			sent, _ := metadata.FromIncomingContext(stream.Context())
			count(strings.Join(sent.Get(":authority"), " "))
			for {
				var message []byte
				if err := stream.RecvMsg(&message); errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return err
				}
				if err := stream.SendMsg(message); err != nil {
					return err
				}
			}
		}))
		go func() { _ = g.Serve(listener) }() // ends with Stop
		s.close, address = g.Stop, listener.Addr()
	default:
		plan := httpwire.ServerPlan{Version: f.Wire.Version(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
			count(r.Host)
		})}
		if f.identity != nil {
			plan.TLS = f.identity.ServerConfig(plan.Version.Protocols()...)
		}
		h, err := httpwire.NewServer(plan)
		if err != nil {
			t.Fatal(err)
		}
		if address, err = h.Listen(t.Context(), net.JoinHostPort(host, cmp.Or(f.port, "0"))); err != nil {
			t.Skipf("this machine has no address %s: %v", host, err)
		}
		go func() { _ = h.Serve() }() // ends with Close
		s.close = func() { _ = h.Close() }
	}
	t.Cleanup(s.close)
	f.servers[address.String()] = s
	f.Definition.Addresses.All = append(f.Definition.Addresses.All, address.String())
	return s
}

func (f *farm) listen(t *testing.T, host string) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, cmp.Or(f.port, "0")))
	if err != nil {
		t.Skipf("this machine has no address %s: %v", host, err)
	}
	return listener
}

// load makes calls with several callers, and returns the counts that the callers have by address.
func (f *farm) load(t *testing.T, client service.Client, callers, each int) map[string]int64 {
	t.Helper()
	counts := map[string]int64{}
	var calling sync.WaitGroup
	for number := range callers {
		calling.Go(func() {
			caller := f.NewCaller(client, f.FixedSource(service.Share{Number: number, Of: 1}))
			for range each {
				if err := caller.Call(t.Context()); err != nil {
					t.Error(err)
				}
				f.guard.Lock()
				counts[caller.Address()]++
				f.guard.Unlock()
			}
		})
	}
	calling.Wait()
	return counts
}

func open(t *testing.T, plan service.Plan) service.Client {
	t.Helper()
	plan.Dialer = &conn.Dialer{}
	client, err := catalog.Open(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

var hosts = []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}

// TestCallsAreDivided loads three addresses over each wire, with both engines, on connections of the
// callers' own, on shared ones, and with one per call.
func TestCallsAreDivided(t *testing.T) {
	t.Parallel()
	const callers, each = 6, 12
	for _, wire := range []service.Wire{service.HTTP1, service.HTTP2, service.HTTP3, service.GRPC} {
		for _, keep := range []bool{false, true} {
			for name, plan := range map[string]service.Plan{
				"own": {Connections: callers}, "shared": {Connections: 1}, "pool": {Connections: 3}, "new": {Lifecycle: conn.Fresh},
			} {
				for _, secured := range []bool{false, true} {
					if wire == service.HTTP3 && !secured || wire == service.GRPC && secured || wire == service.HTTP1 && name == "shared" {
						continue // the first two do not exist; the third has one connection, and so one address
					}
					t.Run(fmt.Sprintf("%s/keep=%v/%s/tls=%v", wire, keep, name, secured), func(t *testing.T) {
						t.Parallel()
						f := newFarm(t, wire, secured)
						for _, host := range hosts {
							f.serve(t, host)
						}
						own := plan
						own.Definition, own.Callers, own.Keep = f.Definition, callers, keep
						client := open(t, own)
						counts := f.load(t, client, callers, each)
						for address, s := range f.servers {
							if got := s.handled.Load(); got != callers*each/3 || counts[address] != got {
								t.Errorf("%s handled %d calls, and the callers count %d: want %d", address, got, counts[address], callers*each/3)
							}
						}
						if want := map[string]int{"own": callers, "shared": 3, "pool": 3, "new": 3}[name]; client.(service.Counted).Connections() != want {
							t.Errorf("%d connections: want %d", client.(service.Counted).Connections(), want)
						}
					})
				}
			}
		}
	}
}

// TestLeastCalls holds all calls at one of two addresses: all others then go to the other one.
func TestLeastCalls(t *testing.T) {
	t.Parallel()
	for _, wire := range []service.Wire{service.HTTP2, service.GRPC} {
		f := newFarm(t, wire, false)
		f.Definition.Addresses.Policy = service.LeastCalls
		slow, fast := f.serve(t, hosts[0]), f.serve(t, hosts[1])
		slow.hold = make(chan struct{})
		client := open(t, service.Plan{Definition: f.Definition, Connections: 1, Callers: 2})
		var held sync.WaitGroup
		held.Go(func() { f.load(t, client, 1, 1) })
		<-slow.calls
		f.load(t, client, 1, 20)
		if slow.handled.Load() != 1 || fast.handled.Load() != 20 {
			t.Errorf("%s: the held address got %d calls, and the other one %d: want 1 and 20", wire, slow.handled.Load(), fast.handled.Load())
		}
		close(slow.hold)
		held.Wait()
	}
	f := newFarm(t, service.HTTP1, false)
	f.Definition.Addresses.Policy = service.LeastCalls
	f.serve(t, hosts[0])
	_, err := catalog.Open(t.Context(), service.Plan{Definition: f.Definition, Connections: 2, Callers: 2, Dialer: &conn.Dialer{}})
	if err == nil || !strings.Contains(err.Error(), "write --addresses all") {
		t.Errorf("calls that keep their connections: %v", err)
	}
}

// TestOpeningCountsAsUnderWay has an address at which handshakes do not end, and one at which calls do not
// end. With the policy least, calls wait at both, and none of the addresses gets more than the other.
func TestOpeningCountsAsUnderWay(t *testing.T) {
	t.Parallel()
	const callers = 8
	f := newFarm(t, service.HTTP1, true)
	f.Definition.Addresses.Policy = service.LeastCalls
	listener := f.listen(t, hosts[0])
	t.Cleanup(func() { _ = listener.Close() })
	opened := make(chan net.Conn, callers)
	go func() { // ends when the listener is closed
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			opened <- c
		}
	}()
	f.Definition.Addresses.All = []string{listener.Addr().String()}
	busy := f.serve(t, hosts[1])
	busy.hold = make(chan struct{})
	client := open(t, service.Plan{Definition: f.Definition, Lifecycle: conn.Fresh, Callers: callers})
	ctx, cancel := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	var opening []net.Conn
	for number := range callers {
		caller := f.NewCaller(client, f.FixedSource(service.Share{Number: number, Of: callers}))
		calling.Go(func() { _ = caller.Call(ctx) })
		select { // so that the next caller sees this call
		case c := <-opened:
			opening = append(opening, c)
		case <-busy.calls:
		}
	}
	if len(opening) != callers/2 || busy.handled.Load() != callers/2 {
		t.Errorf("%d calls open connections, and %d wait for an answer: want %d of each", len(opening), busy.handled.Load(), callers/2)
	}
	cancel()
	close(busy.hold)
	calling.Wait()
	for _, c := range opening {
		_ = c.Close()
	}
}

// TestRequestsMeetAllAddresses sends as many requests in turn as there are addresses. Each request
// must come to each address, or the address of a slow request would seem slow.
func TestRequestsMeetAllAddresses(t *testing.T) {
	t.Parallel()
	f := newFarm(t, service.HTTP2, false)
	for _, host := range hosts[:2] {
		f.serve(t, host)
	}
	client := open(t, service.Plan{Definition: f.Definition, Connections: 1, Callers: 2})
	counts := map[string]int{}
	var answer service.Answer
	for i := range 60 {
		if err := client.Call(t.Context(), &f.Requests[0], &answer); err != nil {
			t.Fatal(err)
		}
		counts[fmt.Sprintf("request %d at %s", i%2, answer.Address)]++
	}
	if len(counts) != 4 {
		t.Errorf("the requests met the addresses %v", counts)
	}
}

// TestUsersOfBothProtocols has steps of HTTP and of gRPC in turn. Each protocol has two addresses, and the
// steps of a caller must come to all of them.
func TestUsersOfBothProtocols(t *testing.T) {
	t.Parallel()
	const steps = 20
	http, grpc := newFarm(t, service.HTTP2, false), newFarm(t, service.GRPC, false)
	for _, f := range []*farm{http, grpc} {
		f.serve(t, hosts[0])
		f.serve(t, hosts[1])
	}
	http.Journey = &service.Journey{GRPC: grpc.Definition}
	client := open(t, service.Plan{Definition: http.Definition, Connections: 1, Callers: 2, Varied: true})
	var answer service.Answer
	for range steps {
		for _, f := range []*farm{http, grpc} {
			request := f.Requests[0]
			request.GRPC = f == grpc
			if err := client.Call(t.Context(), &request, &answer); err != nil {
				t.Fatal(err)
			}
			if f.servers[answer.Address] == nil {
				t.Errorf("a step of %s went to %s", f.Wire, answer.Address)
			}
		}
	}
	for _, f := range []*farm{http, grpc} {
		for address, s := range f.servers {
			if got := s.handled.Load(); got != steps/2 {
				t.Errorf("%s: %s handled %d steps: want %d", f.Wire, address, got, steps/2)
			}
		}
	}
	counted := client.(service.Counted)
	if counted.Connections() != 4 || len(counted.Addresses().All) != 4 {
		t.Errorf("%d connections to %+v: want 4 to 4", counted.Connections(), counted.Addresses())
	}
}

// TestOthersGoOn has an address that accepts no connection, and one whose server ends in the middle.
func TestOthersGoOn(t *testing.T) {
	t.Parallel()
	const callers, each = 4, 10
	for _, wire := range []service.Wire{service.HTTP1, service.HTTP2, service.HTTP3, service.GRPC} {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/keep=%v", wire, keep), func(t *testing.T) {
				t.Parallel()
				f := newFarm(t, wire, wire == service.HTTP3)
				f.serve(t, hosts[0]).close()
				f.serve(t, hosts[1])
				f.serve(t, hosts[2])
				plan := service.Plan{Definition: f.Definition, Connections: callers, Callers: callers, Keep: keep}
				client := open(t, plan)
				counts := f.load(t, client, callers, each)
				down, rest := f.Definition.Addresses.All[0], f.Definition.Addresses.All[1:]
				if counts[down] != 0 || counts[rest[0]] != callers*each/2 || counts[rest[1]] != callers*each/2 {
					t.Errorf("with one address that refuses, the calls went to %v", counts)
				}
				for i, a := range client.(service.Counted).Addresses().All {
					if (i == 0) != (a.Unreached > 0) || (i == 0) != strings.Contains(a.Example, down) {
						t.Errorf("address %d: %+v", i, a)
					}
				}
				f.servers[rest[0]].close()
				caller := f.NewCaller(client, f.FixedSource(service.Share{Number: 0, Of: 1}))
				for failed := 0; ; failed++ { // calls on kept connections may fail, until the client sees their end
					if err := caller.Call(t.Context()); err == nil {
						break
					} else if failed > 10*callers {
						t.Fatalf("%d calls failed after a server ended: %v", failed, err)
					}
				}
				if caller.Address() != rest[1] {
					t.Errorf("a call went to %s: want %s", caller.Address(), rest[1])
				}
				f.servers[rest[1]].close()
				if err := untilRefused(t, caller); !strings.Contains(err.Error(), "refused") && !strings.Contains(err.Error(), "no process listens") {
					t.Errorf("without a server: %v", err)
				}
			})
		}
	}
}

// untilRefused calls until an error says that no server listens.
func untilRefused(t *testing.T, caller *service.Caller) error {
	for {
		if err := caller.Call(t.Context()); failure.IsUnreached(err) || t.Context().Err() != nil {
			return err
		}
	}
}

func TestAllRefuse(t *testing.T) {
	t.Parallel()
	f := newFarm(t, service.HTTP1, false)
	for _, host := range hosts {
		f.serve(t, host).close()
	}
	_, err := catalog.Open(t.Context(), service.Plan{Definition: f.Definition, Connections: 3, Callers: 3, Dialer: &conn.Dialer{}})
	if err == nil || failure.Of(err) != failure.Refused {
		t.Fatalf("no server listens: %v", err)
	}
	for _, address := range f.Definition.Addresses.All {
		if !strings.Contains(err.Error(), address) {
			t.Errorf("%v: want %s in it", err, address)
		}
	}
}

// TestMoreAddressesThanConnections has two callers with connections of their own for three addresses.
func TestMoreAddressesThanConnections(t *testing.T) {
	t.Parallel()
	f := newFarm(t, service.HTTP1, false)
	for _, host := range hosts {
		f.serve(t, host)
	}
	client := open(t, service.Plan{Definition: f.Definition, Connections: 2, Callers: 2})
	counts := f.load(t, client, 2, 5)
	if all := f.Definition.Addresses.All; counts[all[0]] != 5 || counts[all[1]] != 5 || counts[all[2]] != 0 {
		t.Errorf("the calls went to %v: want 5 to each of the first two", counts)
	}
	if kept, is := client.(*spread.Client); !is || !kept.OwnConnections() {
		t.Error("each caller has a connection of its own")
	}
}

type rawCodec struct{}

var _ encoding.CodecV2 = rawCodec{}

func (rawCodec) Name() string { return "raw" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
