package load

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/chanpool"
)

// soakTime returns the duration of TestSoak, and the length of its longest message. make soak sets
// SOAK. Without that, messages are short, so that the test takes seconds.
func soakTime(t *testing.T) (d time.Duration, most int) {
	const shortMost = 1 << 20
	text := os.Getenv("SOAK")
	switch {
	case text == "" && testing.Short():
		return time.Second, shortMost
	case text == "":
		return 3 * time.Second, shortMost
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SOAK: %v, want a time such as 30m", err)
	}
	return d, longest
}

// TestSoak makes calls of all kinds over all libraries, in cleartext and under TLS, with messages of 1
// byte to 16 MiB, while connections are cut, callers give up, and servers leave and come back. Each
// call ends as its kind does, with its own content, and is made once at most. Afterwards all kinds and
// sizes succeed, and no goroutine, file, buffer or memory is left.
func TestSoak(t *testing.T) {
	goroutines, files, bytes := runtime.NumGoroutine(), openFiles(), heap()
	var buffers atomic.Int64
	batchio.CountBuffers(&buffers)
	defer batchio.CountBuffers(nil)
	duration, most := soakTime(t)
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	s := &soak{t: t, most: most, room: newGate(), tally: &tally{counts: map[string]int{}}}
	var pairs sync.WaitGroup
	secure := testCredentials(t)
	for i, p := range soakPeers() {
		if p.kinds == nil {
			p.kinds = kinds
		}
		for j, creds := range []ends{{insecure.NewCredentials(), insecure.NewCredentials()}, secure} {
			pairs.Go(func() { s.pair(ctx, p, creds, uint64(2*i+j)) })
		}
	}
	heaps := watchHeap(ctx, duration, s.room)
	pairs.Wait()
	s.tally.print(t)
	checkHeaps(t, <-heaps)
	s = nil // with its ledgers
	left := func() string {
		return fmt.Sprintf("%d goroutines, %d before; %d files, %d before; %d buffers; %d bytes in the heap, %d before",
			runtime.NumGoroutine(), goroutines, openFiles(), files, buffers.Load(), heap(), bytes)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if runtime.NumGoroutine() <= goroutines && openFiles() <= files && buffers.Load() == 0 && heap() <= bytes+leftHeap {
			break
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%s:\n%s", left(), stacks[:runtime.Stack(stacks, true)])
		}
	}
	t.Log(left())
}

// leftHeap bounds the memory that all libraries and this test keep when no connection is open.
const leftHeap = 16 << 20

// A soak holds what all its pairs share.
type soak struct {
	t     *testing.T
	most  int // bytes of the longest message
	room  *gate
	tally *tally
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

// aged holds server parameters that make connections end all the time, but give a long message
// the time that it needs.
var aged = keepalive.ServerParameters{MaxConnectionAge: 2 * time.Second, MaxConnectionAgeGrace: 2 * time.Second}

// pair lets some callers call one server after the other at the same address.
func (s *soak) pair(ctx context.Context, p peers, creds ends, seed uint64) {
	t := s.t
	random := rand.New(rand.NewPCG(seed, 0))
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Error(err)
		return
	}
	made := new(ledger)
	servers := &servers{peers: p, creds: creds.server, made: made, random: random, relay: &relay{Listener: lis}}
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
		c := &caller{client: testgrpc.NewTestServiceClient(conn), random: rand.New(rand.NewPCG(seed, uint64(i))), kinds: p.kinds, most: s.most, made: made, room: s.room}
		each[i] = c
		callers.Go(func() {
			for ctx.Err() == nil {
				kind, err := c.any(context.WithoutCancel(ctx), true)
				if err != nil {
					t.Errorf("%s: %v", p.name, err)
					return
				}
				s.tally.add(p.name + ": " + kind)
				if strings.HasSuffix(kind, " OK") && len(c.sizes) > 0 {
					s.tally.add(fmt.Sprintf("messages: the longest has %d digits", len(strconv.Itoa(slices.Max(c.sizes)))))
				}
			}
		})
	}
	servers.disturb(ctx)
	callers.Wait()
	servers.next(keepalive.ServerParameters{})
	for i, c := range each {
		callers.Go(func() {
			if err := c.afterwards(context.WithoutCancel(ctx), i == 0); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		})
	}
	callers.Wait()
	if pool, ok := conn.(*chanpool.Pool); ok {
		if state := pool.State(); state.InFlight != 0 {
			t.Errorf("%s: %d calls are in flight", p.name, state.InFlight)
		}
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	servers.stop()
	if calls, doubled := made.doubled(); doubled > 0 {
		t.Errorf("%s: %d of %d calls were made more than once", p.name, doubled, calls)
	}
}

// afterwards makes a call of each kind, and with sizes one of each magnitude, when one has found the
// new server.
func (c *caller) afterwards(ctx context.Context, sizes bool) error {
	for found := false; !found; {
		ended, err := c.one(ctx, c.kinds[0], true)
		if err != nil {
			return err
		}
		found = ended == c.kinds[0].name+" OK"
	}
	most := c.most
	c.most = 0
	for _, k := range c.kinds {
		if _, err := c.one(ctx, k, false); err != nil {
			return err
		}
	}
	for size := 1; size <= most && sizes; size *= 16 {
		c.sizes = []int{size}
		leave := c.room.enter(2 * size)
		_, err := c.drawn(ctx, c.kinds[0], false)
		if leave(); err != nil {
			return err
		}
	}
	return nil
}

// servers runs one server at a time, while its predecessors drain.
type servers struct {
	peers   peers
	creds   credentials.TransportCredentials
	made    *ledger
	random  *rand.Rand
	relay   *relay
	current server
	running sync.WaitGroup // the relay, and what all servers do
}

// next replaces the server. The old one leaves when its calls have ended, or it stops, and the new
// one comes a while later.
func (s *servers) next(age keepalive.ServerParameters) {
	old := s.current
	if old != nil {
		if s.random.IntN(2) == 0 {
			s.running.Go(old.GracefulStop)
		} else {
			old.Stop()
			time.Sleep(time.Duration(s.random.IntN(200)) * time.Millisecond)
		}
	}
	s.current = s.peers.newServer(s.creds, age)
	testgrpc.RegisterTestServiceServer(s.current, service{made: s.made})
	lis := &handed{addr: s.relay.Addr(), conns: make(chan net.Conn), closed: make(chan struct{})}
	current := s.current
	s.running.Go(func() { _ = current.Serve(lis) }) // ends when it is stopped
	s.relay.handTo(lis)
}

// disturb replaces servers and cuts connections until the context is done. The pauses between are
// of all magnitudes up to 4 seconds, so that long messages succeed at times.
func (s *servers) disturb(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(s.random.IntN(1 << (22 + s.random.IntN(11))))):
		}
		switch s.random.IntN(4) {
		case 0, 1:
			s.relay.cut(s.random)
		case 2:
			s.relay.cutAll()
		case 3:
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

// cut cuts one of the connections, half of them by a reset. Some have ended already.
func (r *relay) cut(random *rand.Rand) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.conns) == 0 {
		return
	}
	i := random.IntN(len(r.conns))
	if tcp, ok := r.conns[i].(*net.TCPConn); ok && random.IntN(2) == 0 {
		_ = tcp.SetLinger(0)
	}
	_ = r.conns[i].Close()
	r.conns = slices.Delete(r.conns, i, i+1)
}

func (r *relay) cutAll() {
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

// watchHeap returns what the heap had at equal intervals of a time, always while no call was under
// way; it ends with the context.
func watchHeap(ctx context.Context, duration time.Duration, room *gate) (bytes <-chan []uint64) {
	out := make(chan []uint64, 1)
	go func() {
		var looks []uint64
		ticks := time.NewTicker(max(duration/heapLooks, time.Second)) // each look stops all calls
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				out <- looks
				return
			case <-ticks.C:
				leave := room.enter(mostInFlight)
				looks = append(looks, heap())
				leave()
			}
		}
	}()
	return out
}

// checkHeaps checks that the heap grows little from the second third to the last one. The
// first third warms up. Handlers of calls that were given up, and buffers kept for reuse, differ
// by as much as may be under way.
func checkHeaps(t *testing.T, looks []uint64) {
	t.Helper()
	t.Logf("bytes in the heap: %d", looks)
	if len(looks) < heapLooks*3/4 {
		t.Logf("too few readings to tell a growth from the soak's beginning: the soak was too short, or the machine too busy, for %d", heapLooks)
		return
	}
	third := len(looks) / 3
	before, after := median(looks[third:2*third]), median(looks[2*third:])
	if after > before+before/4+mostInFlight {
		t.Errorf("the heap grew from %d bytes to %d", before, after)
	}
}

func median(of []uint64) uint64 {
	return slices.Sorted(slices.Values(of))[len(of)/2]
}
