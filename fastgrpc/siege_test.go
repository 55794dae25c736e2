package fastgrpc

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// attacker is the hostile end of a raw connection, and what it saw.
type attacker struct {
	*http2.Framer
	nc net.Conn

	mu       sync.Mutex
	goAway   *http2.ErrCode
	resets   map[http2.ErrCode]int
	statuses map[string]int
	over     chan struct{} // the victim has closed, or the attacker gave up
	patience error         // of the read that ended the listening
}

func newAttacker(nc net.Conn) *attacker {
	// Nobody's victim holds out for so long: a flood that still goes on then was
	// never stopped.
	_ = nc.SetDeadline(time.Now().Add(3 * time.Minute))
	a := &attacker{
		Framer: http2.NewFramer(nc, nc), nc: nc,
		resets: map[http2.ErrCode]int{}, statuses: map[string]int{}, over: make(chan struct{}),
	}
	a.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return a
}

// listen notes what the victim answers.
func (a *attacker) listen() {
	defer close(a.over)
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
			a.patience = err
			a.mu.Unlock()
			return
		}
		a.mu.Unlock()
	}
}

// assault is one way to misuse a connection.
type assault struct {
	name string
	// step is called until it fails or returns errRetreat.
	step func(a *attacker) error
	// deaf: the attacker reads nothing.
	deaf bool
	// ends: the victim is to close the connection, with one of these codes where it
	// has a chance to say so.
	ends []http2.ErrCode
	// reset and status, where set, are how a stream is to be answered.
	reset  http2.ErrCode
	status string
}

// errRetreat ends an assault that its victim may live with.
var errRetreat = errors.New("retreat")

// run plays the attacker's part to its end and checks how the victim took it.
func (s *assault) run(t *testing.T, a *attacker) {
	defer func() { _ = a.nc.Close() }()
	if !s.deaf {
		go a.listen()
	}
	var err error
	for err == nil {
		err = s.step(a)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the flood was never stopped")
	}
	if errors.Is(err, errRetreat) {
		s.linger(a)
		_ = a.nc.Close()
	}
	if s.deaf {
		return
	}
	<-a.over
	a.mu.Lock()
	defer a.mu.Unlock()
	closed := a.goAway != nil || a.patience != nil && !errors.Is(a.patience, net.ErrClosed) && !errors.Is(a.patience, os.ErrDeadlineExceeded)
	if len(s.ends) > 0 != closed {
		t.Errorf("the victim closed the connection: %v (GOAWAY %v, %v)", closed, a.goAway, a.patience)
	}
	// A TCP reset may overtake the GOAWAY, which then counts as a close.
	if a.goAway != nil && !contains(s.ends, *a.goAway) {
		t.Errorf("the connection ended with %v", *a.goAway)
	}
	if s.reset != 0 && a.resets[s.reset] == 0 {
		t.Errorf("no stream was reset with %v: %v", s.reset, a.resets)
	}
	if s.status != "" && a.statuses[s.status] == 0 {
		t.Errorf("no stream was answered %s: %v", s.status, a.statuses)
	}
}

// linger gives the victim time to do what it is to do, and where that is nothing, to do
// something wrong.
func (s *assault) linger(a *attacker) {
	if s.reset == 0 && s.status == "" && len(s.ends) == 0 {
		time.Sleep(300 * time.Millisecond)
		return
	}
	for done := false; !done; {
		select {
		case <-a.over:
			return
		case <-time.After(5 * time.Millisecond):
		}
		a.mu.Lock()
		done = s.reset != 0 && a.resets[s.reset] > 0 || s.status != "" && a.statuses[s.status] > 0
		a.mu.Unlock()
	}
}

func contains(codes []http2.ErrCode, code http2.ErrCode) bool {
	for _, c := range codes {
		if c == code {
			return true
		}
	}
	return false
}

// Bounds of what an assault may cost the process, the attacker's own part and the
// bystander's included. Without the bounds of package h2 a flood costs as much as the
// attacker has time for.
const (
	siegeMemory = 48 << 20
	siegeCPU    = 5 * time.Second
)

// besiege runs an attack while somebody else is served, and bounds its cost.
func besiege(t *testing.T, bystander testgrpc.TestServiceClient, attack func()) {
	t.Helper()
	runtime.GC()
	heap, cpu := heapInUse(), cpuTime()
	over := make(chan struct{})
	go func() {
		defer close(over)
		attack()
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
	if peak > heap+siegeMemory {
		t.Errorf("the heap grew by %d MiB", (peak-heap)>>20)
	}
	if cost := cpuTime() - cpu; cost > siegeCPU {
		t.Errorf("the attack cost %v of CPU", cost)
	}
}

// heapInUse is in bytes.
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

// hpackBomb is a block that refers a thousand times to one long field.
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

// inMemory lets f write frames and returns them.
func inMemory(f func(fr *http2.Framer)) []byte {
	var many bytes.Buffer
	f(http2.NewFramer(&many, nil))
	return many.Bytes()
}

// once returns a step that sends p, and then retreats.
func once(p []byte) func(*attacker) error {
	return func(a *attacker) error {
		if _, err := a.nc.Write(p); err != nil {
			return err
		}
		return errRetreat
	}
}

// dribble returns a step that sends p a byte at a time, and then retreats.
func dribble(p []byte) func(*attacker) error {
	return func(a *attacker) error {
		if len(p) == 0 {
			return errRetreat
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
	<-a.over
	return io.EOF
}
