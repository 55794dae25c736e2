package load

import (
	"context"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
)

// soakTime returns the duration of TestSoak. make soak sets SOAK.
func soakTime(t *testing.T) time.Duration {
	text := os.Getenv("SOAK")
	switch {
	case text == "" && testing.Short():
		return time.Second
	case text == "":
		return 3 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SOAK: %v, want a time such as 30m", err)
	}
	return d
}

// TestSoak makes calls of all kinds and sizes between all peers, in cleartext and under TLS, while
// connections are cut, servers leave with a GOAWAY because of their connections' age, and
// stop and come back. Afterwards each kind of call must end as it does without that, no
// goroutine may be left, and the heap may not have grown.
func TestSoak(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	duration := soakTime(t)
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	tally := &tally{counts: map[string]int{}}
	var pairs sync.WaitGroup
	secure := testCredentials(t)
	for i, p := range append(slices.Clone(allPeers), creditPeers) {
		if p.kinds == nil {
			p.kinds = kinds
		}
		for j, creds := range []ends{{insecure.NewCredentials(), insecure.NewCredentials()}, secure} {
			pairs.Go(func() { soakPair(ctx, t, p, creds, uint64(2*i+j), tally) })
		}
	}
	heaps := watchHeap(ctx, duration)
	pairs.Wait()
	tally.print(t)
	checkHeaps(t, <-heaps)
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > goroutines && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines, %d before:\n%s", n, goroutines, stacks[:runtime.Stack(stacks, true)])
	}
}

// ends are the credentials of a server and its client.
type ends struct {
	server, client credentials.TransportCredentials
}

func testCredentials(t *testing.T) ends {
	t.Helper()
	// A certificate for example.com, and the root that it is to be trusted by.
	issuer := httptest.NewTLSServer(nil)
	defer issuer.Close() // its certificate is all that is needed
	roots := issuer.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	return ends{credentials.NewServerTLSFromCert(&issuer.TLS.Certificates[0]), credentials.NewClientTLSFromCert(roots, "example.com")}
}

// aged holds server parameters that make connections end all the time.
var aged = keepalive.ServerParameters{MaxConnectionAge: time.Second, MaxConnectionAgeGrace: 500 * time.Millisecond}

// soakPair lets some callers call one server after the other at the same address.
func soakPair(ctx context.Context, t *testing.T, p peers, creds ends, seed uint64, tally *tally) {
	random := rand.New(rand.NewPCG(seed, 0))
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Error(err)
		return
	}
	servers := &servers{peers: p, creds: creds.server, random: random, relay: &relay{Listener: lis}}
	servers.next(aged)
	servers.running.Go(servers.relay.run)
	conn, err := p.connect("passthrough:///"+lis.Addr().String(), creds.client, nil)
	if err != nil {
		t.Error(err)
		return
	}
	var callers sync.WaitGroup
	each := make([]*caller, 8)
	for i := range each {
		c := &caller{client: testgrpc.NewTestServiceClient(conn), random: rand.New(rand.NewPCG(seed, uint64(i))), kinds: p.kinds, most: longest}
		each[i] = c
		callers.Go(func() {
			for ctx.Err() == nil {
				kind, err := c.any(context.WithoutCancel(ctx), true)
				if err != nil {
					t.Errorf("%s: %v", p.name, err)
					return
				}
				tally.add(p.name + ": " + kind)
			}
		})
	}
	servers.disturb(ctx)
	callers.Wait()
	servers.next(keepalive.ServerParameters{})
	for _, c := range each {
		callers.Go(func() {
			if err := c.afterwards(context.WithoutCancel(ctx)); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		})
	}
	callers.Wait()
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	servers.stop()
}

// afterwards makes a call of each kind, when one has found the new server.
func (c *caller) afterwards(ctx context.Context) error {
	for found := false; !found; {
		ended, err := c.one(ctx, c.kinds[0], true)
		if err != nil {
			return err
		}
		found = ended == c.kinds[0].name+" OK"
	}
	for _, k := range c.kinds {
		if _, err := c.one(ctx, k, false); err != nil {
			return err
		}
	}
	return nil
}

// servers runs one server at a time, while its predecessors drain.
type servers struct {
	peers   peers
	creds   credentials.TransportCredentials
	random  *rand.Rand
	relay   *relay
	current server
	running sync.WaitGroup // the relay, and what all servers do
}

// next replaces the server.
func (s *servers) next(age keepalive.ServerParameters) {
	old := s.current
	current := s.peers.newServer(s.creds, age)
	testgrpc.RegisterTestServiceServer(current, service{})
	lis := &handed{addr: s.relay.Addr(), conns: make(chan net.Conn), closed: make(chan struct{})}
	s.running.Go(func() { _ = current.Serve(lis) }) // ends when it is stopped
	s.relay.handTo(lis)
	s.current = current
	switch {
	case old == nil:
	case s.random.IntN(2) == 0:
		s.running.Go(old.GracefulStop)
	default:
		old.Stop()
	}
}

// disturb replaces servers and cuts connections until the context is done.
func (s *servers) disturb(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(s.random.IntN(1000)) * time.Millisecond):
		}
		switch s.random.IntN(3) {
		case 0:
			s.relay.cut()
		case 1:
			s.next(aged)
		}
	}
}

func (s *servers) stop() {
	s.current.Stop()
	_ = s.relay.Close()
	s.running.Wait()
}

// relay hands connections to the current server, and can cut them all.
type relay struct {
	net.Listener
	mu    sync.Mutex
	to    *handed
	conns []net.Conn
}

func (r *relay) handTo(lis *handed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = lis
}

// run ends when the listener is closed.
func (r *relay) run() {
	for {
		conn, err := r.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		r.conns = append(r.conns, conn)
		to := r.to
		r.mu.Unlock()
		select {
		case to.conns <- conn:
		case <-to.closed:
			_ = conn.Close()
		}
	}
}

func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range r.conns {
		_ = conn.Close()
	}
	r.conns = nil
}

// handed is the listener of one server.
type handed struct {
	addr   net.Addr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (h *handed) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *handed) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *handed) Addr() net.Addr { return h.addr }

// tally counts how calls ended.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *tally) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

func (c *tally) print(t *testing.T) {
	t.Helper()
	for _, what := range slices.Sorted(maps.Keys(c.counts)) {
		t.Logf("%8d %s", c.counts[what], what)
	}
}

// heapLooks counts the readings of the heap in a soak.
const heapLooks = 24

// watchHeap returns what the heap had at equal intervals of a time; it ends with the
// context.
func watchHeap(ctx context.Context, duration time.Duration) (bytes <-chan []uint64) {
	out := make(chan []uint64, 1)
	go func() {
		var looks []uint64
		ticks := time.NewTicker(duration / heapLooks)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				out <- looks
				return
			case <-ticks.C:
				looks = append(looks, heap())
			}
		}
	}()
	return out
}

// checkHeaps checks that the heap grows little from the second third to the last one. The
// first third warms up. Calls under way differ, so some megabytes come and go.
func checkHeaps(t *testing.T, looks []uint64) {
	t.Helper()
	t.Logf("bytes in the heap: %d", looks)
	if len(looks) < heapLooks*3/4 {
		t.Logf("too few readings to tell a growth from the soak's beginning: the machine was too busy for %d", heapLooks)
		return
	}
	third := len(looks) / 3
	before, after := median(looks[third:2*third]), median(looks[2*third:])
	if after > before+before/4+16<<20 {
		t.Errorf("the heap grew from %d bytes to %d", before, after)
	}
}

func median(of []uint64) uint64 {
	return slices.Sorted(slices.Values(of))[len(of)/2]
}
