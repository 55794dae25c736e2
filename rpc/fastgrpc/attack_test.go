package fastgrpc

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// attacker is the hostile end of a raw connection. It records the peer's frames.
type attacker struct {
	*http2.Framer
	nc net.Conn

	mu       sync.Mutex
	goAway   *http2.ErrCode
	resets   map[http2.ErrCode]int
	statuses map[string]int
	done     chan struct{} // the peer has closed the connection, or the deadline has passed
	readErr  error         // of the read that ended the listening
}

func newAttacker(nc net.Conn) *attacker {
	// A flood that still goes on after this time was never stopped.
	_ = nc.SetDeadline(time.Now().Add(3 * time.Minute))
	a := &attacker{
		Framer: http2.NewFramer(nc, nc), nc: nc,
		resets: map[http2.ErrCode]int{}, statuses: map[string]int{}, done: make(chan struct{}),
	}
	a.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return a
}

// listen records the peer's frames.
func (a *attacker) listen() {
	defer close(a.done)
	for {
		frame, err := a.ReadFrame()
		a.mu.Lock()
		switch f := frame.(type) {
		case *http2.GoAwayFrame:
			a.goAway = &f.ErrCode
		case *http2.RSTStreamFrame:
			a.resets[f.ErrCode]++
		case *http2.MetaHeadersFrame:
			a.statuses[f.PseudoValue("status")]++
		}
		var streamError http2.StreamError
		if err != nil && !errors.As(err, &streamError) {
			a.readErr = err
			a.mu.Unlock()
			return
		}
		a.mu.Unlock()
	}
}

// An attack is one way to misuse a connection.
type attack struct {
	name string
	// step is called until it returns an error: errAttackDone, or a write's.
	step func(a *attacker) error
	// readsNothing means that the attacker does not read.
	readsNothing bool
	// ends are the expected GOAWAY codes; if there are any, the peer must close the
	// connection.
	ends []http2.ErrCode
	// reset and status, if set, are the expected answer to a stream.
	reset  http2.ErrCode
	status string
}

// Time earns attackers nothing, so that a flood is stopped however slow the machine is.
func unforgiving(l *limits) { l.h2.ControlRate = 0 }

// errAttackDone ends an attack that the peer has not stopped.
var errAttackDone = errors.New("attack done")

// run makes the attack and checks the peer's reaction.
func (s *attack) run(t *testing.T, a *attacker) {
	defer func() { _ = a.nc.Close() }()
	if !s.readsNothing {
		go a.listen()
	}
	var err error
	for err == nil {
		err = s.step(a)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the flood was never stopped")
	}
	if errors.Is(err, errAttackDone) {
		s.waitForReaction(a)
		_ = a.nc.Close()
	}
	if s.readsNothing {
		return
	}
	<-a.done
	a.mu.Lock()
	defer a.mu.Unlock()
	closed := a.goAway != nil || a.readErr != nil && !errors.Is(a.readErr, net.ErrClosed) && !errors.Is(a.readErr, os.ErrDeadlineExceeded)
	if len(s.ends) > 0 != closed {
		t.Errorf("the peer closed the connection: %v (GOAWAY %v, %v)", closed, a.goAway, a.readErr)
	}
	// A TCP reset may discard the GOAWAY; then any close is accepted.
	if a.goAway != nil && !slices.Contains(s.ends, *a.goAway) {
		t.Errorf("the connection ended with %v", *a.goAway)
	}
	if s.reset != 0 && a.resets[s.reset] == 0 {
		t.Errorf("no stream was reset with %v: %v", s.reset, a.resets)
	}
	if s.status != "" && a.statuses[s.status] == 0 {
		t.Errorf("no stream was answered %s: %v", s.status, a.statuses)
	}
}

// waitForReaction waits for the expected answer, or a while if none is expected, so that
// a wrong one is seen.
func (s *attack) waitForReaction(a *attacker) {
	if s.reset == 0 && s.status == "" && len(s.ends) == 0 {
		time.Sleep(300 * time.Millisecond)
		return
	}
	for done := false; !done; {
		select {
		case <-a.done:
			return
		case <-time.After(5 * time.Millisecond):
		}
		a.mu.Lock()
		done = s.reset != 0 && a.resets[s.reset] > 0 || s.status != "" && a.statuses[s.status] > 0
		a.mu.Unlock()
	}
}

// Bounds of an attack's cost to the process, including the attacker and the bystander.
// Without the bounds of package h2, the cost of a flood grows as long as it lasts.
const (
	maxAttackMemory = 48 << 20
	maxAttackCPU    = 5 * time.Second
)

// checkAttackCost makes an attack while a bystander is served, and checks its CPU time
// and memory.
func checkAttackCost(t *testing.T, bystander testgrpc.TestServiceClient, run func()) {
	t.Helper()
	runtime.GC()
	heap, cpu := heapInUse(), cpuTime()
	over := make(chan struct{})
	go func() {
		defer close(over)
		run()
	}()
	peak := heap
	for calls, done := 0, false; !done; calls++ {
		if _, err := bystander.UnaryCall(testContext(t), request(make([]byte, 1000))); err != nil {
			t.Fatalf("the bystander's call: %v", err)
		}
		peak = max(peak, heapInUse())
		select {
		case <-over:
			done = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	if peak > heap+maxAttackMemory {
		t.Errorf("the heap grew by %d MiB", (peak-heap)>>20)
	}
	if cost := cpuTime() - cpu; cost > maxAttackCPU {
		t.Errorf("the attack cost %v of CPU", cost)
	}
}

// heapInUse returns the bytes of heap objects.
func heapInUse() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// block encodes fields without the dynamic table.
func block(fields ...string) []byte {
	var out bytes.Buffer
	enc := hpack.NewEncoder(&out)
	for i := 0; i < len(fields); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true})
	}
	return out.Bytes()
}

// hpackBomb returns a block that refers 10,000 times to one long field.
func hpackBomb(fields ...string) []byte {
	var out bytes.Buffer
	enc := hpack.NewEncoder(&out)
	for i := 0; i < len(fields); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true})
	}
	for range 10_000 {
		_ = enc.WriteField(hpack.HeaderField{Name: "bomb", Value: string(bytes.Repeat([]byte{'x'}, 4000))})
	}
	return out.Bytes()
}

// inMemory returns the frames that f writes.
func inMemory(f func(fr *http2.Framer)) []byte {
	var many bytes.Buffer
	f(http2.NewFramer(&many, nil))
	return many.Bytes()
}

// once returns a step that sends p and is done.
func once(p []byte) func(*attacker) error {
	return func(a *attacker) error {
		if _, err := a.nc.Write(p); err != nil {
			return err
		}
		return errAttackDone
	}
}

// times returns a step that is done after n.
func times(n int, step func(*attacker) error) func(*attacker) error {
	return func(a *attacker) error {
		if n--; n < 0 {
			return errAttackDone
		}
		return step(a)
	}
}

// writeSlowly returns a step that sends p a byte at a time and is done.
func writeSlowly(p []byte) func(*attacker) error {
	return func(a *attacker) error {
		if len(p) == 0 {
			return errAttackDone
		}
		_, err := a.nc.Write(p[:1])
		p = p[1:]
		time.Sleep(time.Millisecond) // an attacker of this kind is slow
		return err
	}
}

func halfClose(a *attacker) error {
	if err := a.nc.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	<-a.done
	return io.EOF
}
