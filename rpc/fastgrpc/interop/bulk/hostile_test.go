package bulk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/rpc/batchio"
)

// An attack opens calls in waves on one connection and never takes an answer.
type attack struct {
	name         string
	quick        bool // made without the judges, too
	waves, calls int
	method       string
	request      proto.Message
	window       uint32 // of each stream, as the client says; it never renews any
	readsNothing bool   // not even from the socket
	keepsOpen    bool   // the requests do not end, and lack their last byte

	answer  int           // bytes of a handler's own answer
	handler time.Duration // that a handler takes
	// bound returns the bytes of live heap that SECURITY.md allows the server to keep.
	bound func(a *attack) int
}

// Parts of the bound, as SECURITY.md has them.
const (
	mebibyte = 1 << 20
	part     = 64 * mebibyte // of records, of content and of answers
	// factor bounds the measured heap, relative to the bound: Go keeps more memory than
	// fastgrpc counts.
	factor = 1.25
)

// answersBound is for calls whose answers are not taken. Those of the calls that run
// before there is an answer may come on top of the account.
func answersBound(a *attack) int {
	running := 512.0
	for waited := 500 * time.Millisecond; waited < a.handler; waited += 100 * time.Millisecond {
		running += running / 4
	}
	return part + part + min(int(running), a.calls)*batchio.BufferSize(a.answer+100)
}

// contentBound is for content that is kept.
func contentBound(*attack) int { return part + part + 4*mebibyte }

// content is an attack of requests that never become complete, or are never read. It keeps
// to the windows that the server offers.
func content(name, method string, calls, bytes int) attack {
	return attack{
		name: name, method: method, waves: 1, calls: calls, request: unaryRequest(bytes),
		window: 65535, keepsOpen: true, bound: contentBound, quick: calls == 1000,
	}
}

func unaryRequest(n int) proto.Message {
	return &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: make([]byte, n)}}
}

func downloadRequest(messages, n int) proto.Message {
	in := &testgrpc.StreamingOutputCallRequest{}
	for range messages {
		in.ResponseParameters = append(in.ResponseParameters, &testgrpc.ResponseParameters{Size: int32(n)})
	}
	return in
}

func attacks() []attack {
	answers := attack{method: "UnaryCall", request: unaryRequest(0), answer: mebibyte, waves: 1, calls: 3000, bound: answersBound}
	with := func(change func(*attack)) attack {
		a := answers
		change(&a)
		return a
	}
	var bursts []attack
	for _, handler := range []time.Duration{0, 300 * time.Millisecond, 2 * time.Second} {
		for _, c := range []struct{ calls, answer int }{{20_000, 1000}, {5000, 100_000}, {3000, mebibyte}, {1000, 4_000_000}} {
			bursts = append(bursts, with(func(a *attack) {
				a.name = fmt.Sprintf("closed windows, one burst, answers of %s after %v", size(c.answer), handler)
				a.calls, a.answer, a.handler = c.calls, c.answer, handler
				a.quick = c.answer == mebibyte && handler == 300*time.Millisecond
			}))
		}
	}
	return append(bursts, []attack{
		with(func(a *attack) {
			a.name, a.waves, a.calls, a.handler = "closed windows, three waves", 3, 1000, 100*time.Millisecond
		}),
		with(func(a *attack) {
			a.name, a.window, a.handler = "windows of 64 KiB that are never renewed", 65535, 300*time.Millisecond
		}),
		with(func(a *attack) {
			a.name, a.window, a.handler, a.readsNothing = "open windows, reads nothing", 1<<31-1, 300*time.Millisecond, true
		}),
		with(func(a *attack) {
			a.name, a.method, a.request = "downloads, closed windows", "StreamingOutputCall", downloadRequest(10, mebibyte)
		}),
		with(func(a *attack) {
			a.name, a.method, a.request = "downloads, open windows, reads nothing", "StreamingOutputCall", downloadRequest(10, mebibyte)
			a.window, a.readsNothing, a.quick = 1<<31-1, true, true
		}),
		content("incomplete requests, 1,000 of 1 MB", "UnaryCall", 1000, mebibyte),
		content("incomplete requests, 20,000 of 10 KB", "UnaryCall", 20_000, 10_000),
		content("incomplete requests, 100 of 4 MB", "UnaryCall", 100, 4_000_000),
		content("unread uploads, 1,000 of 1 MB", "FullDuplexCall", 1000, mebibyte),
		content("unread uploads, 15,000 of 10 KB", "FullDuplexCall", 15_000, 10_000),
	}...)
}

// TestHostile makes attacks on a server of fastgrpc, and holds its heap against the
// documented bound. The judges make all attacks, and on a server of grpc-go too.
func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: an attack takes seconds")
	}
	var rows []string
	all := os.Getenv("JUDGES") != ""
	for _, a := range attacks() {
		if !all && !a.quick {
			continue
		}
		t.Run(strings.ReplaceAll(a.name, " ", "_"), func(t *testing.T) {
			var theirs usage
			if all {
				theirs = a.play(t, grpcGo, math.MaxInt)
			}
			bound := a.bound(&a)
			ours := a.play(t, fast, int(factor*float64(bound)))
			t.Logf("live heap: grpc-go %s (peak %s), fastgrpc %s (peak %s), bound %s", size(int(theirs.Heap)), size(int(theirs.PeakHeap)), size(int(ours.Heap)), size(int(ours.PeakHeap)), size(bound))
			if float64(ours.Heap) > factor*float64(bound) {
				t.Errorf("the live heap is %s, and the documented bound %s", size(int(ours.Heap)), size(bound))
			}
			rows = append(rows, fmt.Sprintf("| %s | %d × %d | %s; %s | %s; %s | %s |", a.name, a.waves, a.calls, size(int(theirs.Heap)), size(int(theirs.PeakHeap)), size(int(ours.Heap)), size(int(ours.PeakHeap)), size(bound)))
		})
	}
	if all && os.Getenv("UPDATE") != "" {
		writeTable(t, "hostile", []string{"attack", "waves × calls", "grpc-go: live; peak", "fastgrpc: live; peak", "documented bound"}, rows)
	}
}

// afterWave is for how long handlers may work until the next wave comes, or the heap is
// looked at.
const afterWave = 3 * time.Second

// play makes the attack on a server of its own and returns the server's usage. A server on a busy
// machine may still work: as long as its heap is above the limit, it gets up to a minute more.
func (a *attack) play(t *testing.T, library string, limit int) usage {
	t.Helper()
	server := start(t, "server", nil)
	address := server.do(t, order{
		Do: "listen", Address: "127.0.0.1:0", Settings: settings{Library: library},
		Load: load{Down: mebibyte}, Answer: a.answer, After: a.handler,
	}).Address
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	fr := http2.NewFramer(nc, nc)
	_, _ = io.WriteString(nc, http2.ClientPreface)
	_ = fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: a.window})
	if a.window > 65535 {
		_ = fr.WriteWindowUpdate(0, 1<<31-1-65535)
	}
	_ = fr.WriteSettingsAck()
	w := newWindows(nc)
	if !a.readsNothing {
		go w.follow(fr) // ends when the connection is closed
	}
	id := uint32(1)
	for range a.waves {
		_ = nc.SetWriteDeadline(time.Now().Add(10 * time.Second))
		// A server may stop reading, or end the connection: then it keeps no more.
		if a.keepsOpen {
			a.trickle(fr, w)
		} else {
			_, _ = nc.Write(a.wave(&id))
		}
		time.Sleep(afterWave + a.handler)
	}
	seen := server.do(t, order{Do: "live"}).Usage
	for end := time.Now().Add(time.Minute); int(seen.Heap) > limit && time.Now().Before(end); seen = server.do(t, order{Do: "live"}).Usage {
		time.Sleep(time.Second)
	}
	return seen
}

// wave returns the frames of as many calls.
func (a *attack) wave(id *uint32) []byte {
	var out bytes.Buffer
	fr := http2.NewFramer(&out, nil)
	message := a.message()
	for range a.calls {
		// Writes to memory cannot fail.
		_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: *id, BlockFragment: a.head(), EndHeaders: true})
		_ = fr.WriteData(*id, true, message)
		*id += 2
	}
	return out.Bytes()
}

func (a *attack) head() []byte {
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", "/grpc.testing.TestService/" + a.method},
		{":authority", "x"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		_ = enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true})
	}
	return head.Bytes()
}

// message returns the request behind its prefix.
func (a *attack) message() []byte {
	body, err := proto.Marshal(a.request)
	if err != nil {
		panic(err) // it is well-formed
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
}

// trickle sends as much of all requests as the windows allow, but never a last byte.
func (a *attack) trickle(fr *http2.Framer, w *windows) {
	message := a.message()
	message = message[:len(message)-1]
	for i := range a.calls {
		if fr.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: a.head(), EndHeaders: true}) != nil {
			return
		}
	}
	sent := make([]int, a.calls)
	for idle := 0; idle < 20; {
		progress := false
		for i := range sent {
			id := uint32(2*i + 1)
			n := w.use(id, min(len(message)-sent[i], 1<<14))
			if n == 0 {
				continue
			}
			if fr.WriteData(id, false, message[sent[i]:sent[i]+n]) != nil {
				return
			}
			sent[i] += n
			progress = true
		}
		if idle++; progress {
			idle = 0
		} else {
			time.Sleep(20 * time.Millisecond) // until the server has renewed some window
		}
	}
}

// windows holds the flow-control windows that the server offers.
type windows struct {
	mu         sync.Mutex
	connection int
	initial    int
	streams    map[uint32]int // beyond the initial window
	to         io.Writer      // whole frames; a connection takes each write whole
}

var settingsAck = []byte{0, 0, 0, byte(http2.FrameSettings), byte(http2.FlagSettingsAck), 0, 0, 0, 0}

func newWindows(to io.Writer) *windows {
	return &windows{to: to, connection: 65535, initial: 65535, streams: map[uint32]int{}}
}

// use takes up to n bytes of a stream's window, and returns how many there were.
func (w *windows) use(id uint32, n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n = max(0, min(n, w.connection, w.initial+w.streams[id]))
	w.connection -= n
	w.streams[id] -= n
	return n
}

// follow reads what the server sends, and acknowledges its SETTINGS as a peer must.
func (w *windows) follow(fr *http2.Framer) {
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return
		}
		w.mu.Lock()
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
				w.initial = int(v)
			}
			if !f.IsAck() {
				_, _ = w.to.Write(settingsAck)
			}
		case *http2.WindowUpdateFrame:
			if f.StreamID == 0 {
				w.connection += int(f.Increment)
			} else {
				w.streams[f.StreamID] += int(f.Increment)
			}
		}
		w.mu.Unlock()
	}
}
