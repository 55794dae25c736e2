package prepared

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/service"
)

// cleartext serves HTTP/2 without TLS.
func cleartext(t testing.TB, listener net.Listener) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	if listener != nil {
		server.Listener = listener
	}
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// The HTTP/2 of net/http closes the connection after Connection: close.
func TestHTTP2(t *testing.T) {
	plan := planFor(cleartext(t, nil), service.HTTP2, wanted()...)
	client, counts := open(t, plan)
	callAll(t, client, plan.Definition, &service.Answer{})
	if counts.Negotiated().Protocol != "h2" {
		t.Errorf("protocol %v", counts.Negotiated().Protocol)
	}
}

func TestHTTP2OverTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	var trust *service.TLS
	server.TLS, trust = secured(t, "h2")
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	plan := planFor(server, service.HTTP2, wanted()...)
	plan.TLS = trust
	client, _ := open(t, plan)
	callAll(t, client, plan.Definition, &service.Answer{})
}

func TestHTTP2OverUnixSocket(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	plan := planFor(cleartext(t, listener), service.HTTP2, wanted()...)
	plan.Network = "unix"
	client, _ := open(t, plan)
	callAll(t, client, plan.Definition, &service.Answer{})
}

func TestHTTP2IsNotAgreed(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	var trust *service.TLS
	server.TLS, trust = secured(t)
	server.StartTLS()
	defer server.Close()
	server.TLS.NextProtos = nil
	plan := planFor(server, service.HTTP2, wanted()...)
	plan.TLS = trust
	if _, _, err := tryOpen(t, plan); err == nil || !strings.Contains(err.Error(), "HTTP/2") && failure.Of(err) != "tls-alert: no application protocol" {
		t.Errorf("%v", err)
	}
}

// Many callers share connections, with bodies in both directions beyond every window.
func TestHTTP2ManyCallers(t *testing.T) {
	plan := planFor(cleartext(t, nil), service.HTTP2, wanted()...)
	plan.Connections, plan.Callers = 2, 40
	client, counts := open(t, plan)
	var callers sync.WaitGroup
	for caller := range plan.Callers {
		callers.Go(func() {
			var answer service.Answer
			for i := range 10 {
				n := (caller + i) % len(wants)
				if w := wants[n]; w.request.Path == "/close" || w.bytes > 1<<22 && caller > 2 {
					continue
				}
				if err := client.Call(t.Context(), &plan.Requests[n], &answer); err != nil || answer.Bytes != wants[n].bytes || answer.Status != wants[n].status {
					t.Errorf("%s: %v, status %d, %d bytes", wants[n].request.Path, err, answer.Status, answer.Bytes)
					return
				}
			}
		})
	}
	callers.Wait()
	if n := counts.Counts().Opened; n != 2 {
		t.Errorf("%d connections", n)
	}
}

// peer is a server of HTTP/2 that does what a test says.
type peer struct {
	*http2.Framer
	net.Conn
	block bytes.Buffer
}

// h2Script serves each connection with a function, after the prefaces.
func h2Script(t *testing.T, serve ...func(*peer)) service.Plan {
	var all []func(net.Conn)
	for _, one := range serve {
		all = append(all, func(conn net.Conn) {
			preface := make([]byte, len(http2.ClientPreface))
			if _, err := io.ReadFull(conn, preface); err != nil || string(preface) != http2.ClientPreface {
				t.Errorf("preface %q: %v", preface, err)
			}
			p := &peer{Framer: http2.NewFramer(conn, conn), Conn: conn}
			_ = p.WriteSettings()
			one(p)
		})
	}
	plan := script(t, all...)
	plan.Wire = service.HTTP2
	return plan
}

// request returns the number of the next stream, or 0 at the end.
func (p *peer) request() uint32 {
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return 0
		}
		if h, is := f.(*http2.HeadersFrame); is {
			return h.StreamID
		}
	}
}

func (p *peer) header(id uint32, end bool, fields ...string) error {
	p.block.Reset()
	encoder := hpack.NewEncoder(&p.block)
	for i := 0; i < len(fields); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true})
	}
	return p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block.Bytes(), EndStream: end, EndHeaders: true})
}

// drain reads until the client closes the connection.
func (p *peer) drain() {
	for p.request() != 0 {
	}
}

func TestHTTP2Failures(t *testing.T) {
	for _, c := range []struct {
		name  string
		serve func(p *peer, id uint32)
		want  failure.Class
		says  string
	}{
		{"closes", func(*peer, uint32) {}, failure.Closed, "closed"},
		{"resets the stream", func(p *peer, id uint32) { _ = p.WriteRSTStream(id, http2.ErrCodeInternal) }, "stream-reset: INTERNAL_ERROR", ""},
		{"refuses the stream", func(p *peer, id uint32) { _ = p.WriteRSTStream(id, http2.ErrCodeRefusedStream) }, failure.StreamRefused, ""},
		{"goes away before it", func(p *peer, id uint32) { _ = p.WriteGoAway(id-1, http2.ErrCodeNo, nil) }, failure.StreamRefused, "GOAWAY"},
		{"goes away and closes", func(p *peer, id uint32) { _ = p.WriteGoAway(id, http2.ErrCodeInternal, []byte("tired")) }, failure.GoAway, `"tired"`},
		{"pushes", func(p *peer, id uint32) {
			_ = p.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, EndHeaders: true})
			p.drain()
		}, failure.WrongProtocol, "push"},
		{"short body", func(p *peer, id uint32) {
			_ = p.header(id, false, ":status", "200", "content-length", "5")
			_ = p.WriteData(id, true, []byte("hi"))
			p.drain()
		}, failure.Closed, "2 of 5"},
		{"long body", func(p *peer, id uint32) {
			_ = p.header(id, false, ":status", "200", "content-length", "1")
			_ = p.WriteData(id, true, []byte("hi"))
			p.drain()
		}, failure.WrongProtocol, "longer"},
		{"no status", func(p *peer, id uint32) { _ = p.header(id, true, "a", "b"); p.drain() }, failure.WrongProtocol, "status"},
		{"interim answers for ever", func(p *peer, id uint32) {
			for p.header(id, false, ":status", "103") == nil {
			}
		}, failure.WrongProtocol, "informational"},
		{"continuations for ever", func(p *peer, id uint32) {
			err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: id})
			for err == nil {
				err = p.WriteContinuation(id, false, make([]byte, 1000))
			}
		}, failure.WrongProtocol, "header"},
		{"a header that unfolds", func(p *peer, id uint32) {
			p.block.Reset()
			_ = hpack.NewEncoder(&p.block).WriteField(hpack.HeaderField{Name: "a", Value: strings.Repeat("b", 3000)})
			block := append(p.block.Bytes(), bytes.Repeat([]byte{0x80 | 62}, 10_000)...)
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true})
			p.drain()
		}, failure.WrongProtocol, "header"},
		{"a window too large", func(p *peer, _ uint32) {
			_ = p.WriteWindowUpdate(0, 1<<31-1)
			p.drain()
		}, failure.FlowControl, "window"},
		{"a long frame", func(p *peer, id uint32) { _ = p.WriteData(id, false, make([]byte, 1<<20)); p.drain() }, failure.WrongProtocol, "frame"},
		{"nonsense", func(p *peer, _ uint32) { _ = p.WriteRawFrame(http2.FramePing, 0, 0, nil); p.drain() }, failure.WrongProtocol, "PING"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := h2Script(t, func(p *peer) { c.serve(p, p.request()) })
			client, _ := open(t, plan)
			err := client.Call(t.Context(), &plan.Requests[0], &service.Answer{})
			if got := failure.Of(err); got != c.want || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("class %q, want %q: %v", got, c.want, err)
			}
		})
	}
}

func TestHTTP2NotSpoken(t *testing.T) {
	for _, c := range []struct {
		answer string
		want   failure.Class
		says   string
	}{
		{"HTTP/1.1 400 Bad Request\r\n\r\n", failure.WrongProtocol, "400 Bad Request"},
		{"\x15\x03\x01\x00\x02\x02\x16", failure.PlaintextPeer, "TLS"},
		{"SSH-2.0-OpenSSH_9.6\r\n", failure.WrongProtocol, "SSH"},
		{"", failure.Closed, "closed"},
	} {
		plan := script(t, func(conn net.Conn) {
			say(c.answer)(conn)
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, conn) // a close with something unread would be a reset
		})
		plan.Wire = service.HTTP2
		if _, _, err := tryOpen(t, plan); failure.Of(err) != c.want || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%q: class %q: %v", c.answer, failure.Of(err), err)
		}
	}
	plan := script(t, hold(""))
	plan.Wire, plan.Timeout = service.HTTP2, 50*time.Millisecond
	if _, _, err := tryOpen(t, plan); failure.Of(err) != failure.Deadline {
		t.Errorf("silent: %v", err)
	}
}

// Floods end the connection, or at least leave nothing behind: their answers do not pile up.
func TestHTTP2Floods(t *testing.T) {
	for name, flood := range map[string]func(*peer) error{
		"pings":    func(p *peer) error { return p.WritePing(false, [8]byte{}) },
		"settings": func(p *peer) error { return p.WriteSettings() },
		"settings of windows": func(p *peer) error {
			return p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 2})
		},
		"unknown": func(p *peer) error { return p.WriteRawFrame(99, 0, 0, nil) },
		"updates": func(p *peer) error { return p.WriteWindowUpdate(0, 1) },
		"goaways": func(p *peer) error { return p.WriteGoAway(1, http2.ErrCodeNo, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			plan := h2Script(t, func(p *peer) {
				p.request()
				go p.drain()
				for flood(p) == nil {
				}
			})
			client, _ := open(t, plan)
			err := client.Call(t.Context(), &plan.Requests[0], &service.Answer{})
			if class := failure.Of(err); class != failure.WrongProtocol && class != failure.GoAway {
				t.Errorf("%v", err)
			}
		})
	}
}

// After GOAWAY, calls that were taken go on, and others have a new connection.
func TestHTTP2GoAway(t *testing.T) {
	asked, second := make(chan struct{}), make(chan struct{})
	plan := h2Script(t, func(p *peer) {
		first := p.request()
		close(asked)
		_ = p.WriteGoAway(first, http2.ErrCodeNo, nil)
		<-second
		_ = p.header(first, true, ":status", "201")
		p.drain()
	}, func(p *peer) {
		_ = p.header(p.request(), true, ":status", "202")
		close(second)
		p.drain()
	})
	plan.Callers = 2
	client, counts := open(t, plan)
	var callers sync.WaitGroup
	var taken service.Answer
	callers.Go(func() {
		if err := client.Call(t.Context(), &plan.Requests[0], &taken); err != nil || taken.Status != 201 {
			t.Errorf("%v, status %d", err, taken.Status)
		}
	})
	<-asked
	for {
		var answer service.Answer
		err := client.Call(t.Context(), &plan.Requests[0], &answer)
		if failure.Of(err) == failure.StreamRefused {
			continue // it was sent before the GOAWAY came
		}
		if err != nil || answer.Status != 202 {
			t.Errorf("%v, status %d", err, answer.Status)
		}
		break
	}
	callers.Wait()
	if n := counts.Counts().Opened; n != 2 {
		t.Errorf("%d connections", n)
	}
}

// Callers beyond the server's limit of streams wait until it is raised.
func TestHTTP2StreamLimit(t *testing.T) {
	const callers = 10
	limited, sent := make(chan struct{}), make(chan struct{})
	plan := h2Script(t, func(p *peer) {
		_ = p.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
		_ = p.header(p.request(), true, ":status", "200") // its answer comes behind the limit
		<-limited
		first := p.request()
		_ = p.WritePing(false, [8]byte{})
		for answered := false; !answered; { // what was sent before it would come first
			f, err := p.ReadFrame()
			if err != nil {
				t.Error(err)
				return
			}
			switch f.(type) {
			case *http2.HeadersFrame:
				t.Error("a stream beyond the limit")
			case *http2.PingFrame:
				answered = true
			}
		}
		close(sent)
		_ = p.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: callers})
		_ = p.header(first, true, ":status", "200")
		for range callers - 1 {
			_ = p.header(p.request(), true, ":status", "200")
		}
		p.drain()
	})
	plan.Callers = callers
	client, _ := open(t, plan)
	call := func() {
		if err := client.Call(t.Context(), &plan.Requests[0], &service.Answer{}); err != nil {
			t.Error(err)
		}
	}
	call()
	var running sync.WaitGroup
	for range callers {
		running.Go(call)
	}
	close(limited)
	running.Wait()
	<-sent
}

// A server's small windows and their changes are kept to; its framer checks nothing, so the
// test counts.
func TestHTTP2Windows(t *testing.T) {
	const body = 200_000
	plan := h2Script(t, func(p *peer) {
		_ = p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000})
		var id uint32
		window, got, last, raised := 65535, 0, false, false
		for !last {
			f, err := p.ReadFrame()
			if err != nil {
				t.Error(err)
				return
			}
			switch f := f.(type) {
			case *http2.HeadersFrame:
				id = f.StreamID
			case *http2.DataFrame:
				got += len(f.Data())
				if window -= len(f.Data()); window < 0 {
					t.Errorf("%d bytes beyond the window", -window)
				}
				if last = f.StreamEnded(); window == 0 || got > 65535-2*16384 {
					more := 5000
					window += more
					_ = p.WriteWindowUpdate(0, uint32(more))
					_ = p.WriteWindowUpdate(id, uint32(more))
				}
			}
			// The client may have sent more than 1,000 bytes before it had the first SETTINGS.
			if got >= 1000 && !raised {
				raised = true
				_ = p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 70_000})
			}
		}
		if got != body {
			t.Errorf("%d bytes", got)
		}
		_ = p.header(id, true, ":status", "200")
		p.drain()
	})
	plan.Requests[1].Body = make([]byte, body)
	client, _ := open(t, plan)
	if err := client.Call(t.Context(), &plan.Requests[1], &service.Answer{}); err != nil {
		t.Error(err)
	}
}
