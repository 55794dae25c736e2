package held

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // RFC 6455, section 4.2.2
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/service"
)

// acceptOf returns the answer to a key (RFC 6455, section 4.2.2).
func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // as the RFC says
	return base64.StdEncoding.EncodeToString(sum[:])
}

// serveRaw answers the first request of each connection with bytes.
func serveRaw(t *testing.T, answer func(*http.Request) string) *service.Definition {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() { // ends when the listener is closed
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the answer
				defer c.Close()
				if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					fmt.Fprint(c, answer(r))
				}
			}()
		}
	}()
	address := listener.Addr().String()
	return &service.Definition{
		Wire: service.WebSocket, Network: "tcp", Address: address, Authority: address, Timeout: time.Minute,
		Requests: []service.Request{{Path: "/chat?x=1", Header: []service.Field{{Name: "X-Mine", Value: "1"}, {Name: "Sec-WebSocket-Protocol", Value: "a, b"}}}},
		Holding:  &service.Holding{Exchange: service.Receive, InFlight: 1},
	}
}

// A wrong answer to the handshake is explained. The request is as RFC 6455, section 4.1, demands.
func TestWrongHandshakes(t *testing.T) {
	t.Parallel()
	const switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
	for name, c := range map[string]struct {
		answer func(key string) string
		says   string
		class  failure.Class
	}{
		"not found": {
			func(string) string { return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n" },
			"answered the WebSocket handshake with 404 Not Found: want 101 Switching Protocols: name the path of a WebSocket", failure.Application,
		},
		"redirect": {
			func(string) string {
				return "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n"
			},
			"302 Found: want 101 Switching Protocols; it redirects to /login", failure.Application,
		},
		"wrong key": {
			func(string) string { return switching + "Sec-WebSocket-Accept: nonsense\r\n\r\n" },
			`its Sec-WebSocket-Accept is "nonsense", which does not answer the key of the request`, failure.WrongProtocol,
		},
		"no upgrade": {
			func(key string) string {
				return "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + acceptOf(key) + "\r\n\r\n"
			},
			"the server's WebSocket handshake is wrong: Upgrade header", failure.WrongProtocol,
		},
		"other subprotocol": {
			func(key string) string {
				return switching + "Sec-WebSocket-Accept: " + acceptOf(key) + "\r\nSec-WebSocket-Protocol: c\r\n\r\n"
			},
			`unexpected Sec-WebSocket-Protocol from server: "c"`, failure.WrongProtocol,
		},
		"closed":  {func(string) string { return "" }, "EOF", failure.Closed},
		"garbage": {func(string) string { return "hello\r\n\r\n" }, "malformed HTTP", failure.Unknown},
		"right": {func(key string) string {
			return switching + "Sec-WebSocket-Accept: " + acceptOf(key) + "\r\nSec-WebSocket-Protocol: b\r\n\r\n"
		}, "", ""},
	} {
		d := serveRaw(t, func(r *http.Request) string {
			h := r.Header
			if r.Method != http.MethodGet || r.RequestURI != "/chat?x=1" || h.Get("Upgrade") != "websocket" || h.Get("Connection") != "Upgrade" ||
				h.Get("Sec-WebSocket-Version") != "13" || h.Get("X-Mine") != "1" || h.Get("Sec-WebSocket-Protocol") != "a,b" || h.Get("User-Agent") != service.UserAgent {
				t.Errorf("%s: the request is %s %s %v", name, r.Method, r.RequestURI, h)
			}
			return c.answer(h.Get("Sec-WebSocket-Key"))
		})
		client := open(t, d, 1)
		err := client.Hold(t.Context(), 0, &d.Requests[0], &service.Answer{})
		switch {
		case c.says == "" && err != nil, c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: found %v, want %q", name, err, c.says)
		case c.says != "" && failure.Of(err) != c.class:
			t.Errorf("%s: %v is of the class %s, want %s", name, err, failure.Of(err), c.class)
		}
	}
}

// WebSockets go over TLS, and messages may be binary.
func TestBinaryOverTLS(t *testing.T) {
	t.Parallel()
	identity, err := secure.Issue(secure.Choice{}, secure.NoFlaw)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			kind, message, err := c.Read(r.Context())
			if err != nil || kind != websocket.MessageBinary {
				return
			}
			_ = c.Write(r.Context(), kind, append(message, 0xff))
		}
	}))
	listener := tls.NewListener(server.Listener, identity.ServerConfig("http/1.1"))
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	address := listener.Addr().String()
	dialer := &conn.Dialer{}
	d := &service.Definition{
		Wire: service.WebSocket, Network: "tcp", Address: address, Authority: address, Timeout: time.Minute,
		TLS:      &service.TLS{ServerName: "localhost", Trust: secure.Trust{RootPEM: identity.RootPEM()}},
		Requests: []service.Request{{Path: "/", Body: []byte{0, 1, 2}}}, Holding: &service.Holding{Exchange: service.Answers, InFlight: 1, Binary: true},
	}
	client, err := Open(t.Context(), service.Plan{Connections: 1, Callers: 1, Dialer: dialer, Definition: d})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var answer service.Answer
	if err := client.Call(t.Context(), &d.Requests[0], &answer); err != nil || string(answer.Body) != "\x00\x01\x02\xff" {
		t.Errorf("got %x, %v", answer.Body, err)
	}
	if c := dialer.Counts(); c.Full != 1 {
		t.Errorf("%+v: want one TLS handshake", c)
	}
}
