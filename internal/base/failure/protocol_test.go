//go:build unix

package failure_test

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"wirelab.dev/internal/base/failure"
)

var quiet = log.New(io.Discard, "", 0)

// stream is one call that has reached a peer.
type stream struct {
	*http2.Framer
	conn *net.TCPConn
	id   uint32
}

// framesPeer speaks HTTP/2, and does with each call as it is told once the whole
// request has come. Done earlier, grpc-go would sometimes end the call with io.EOF
// and no status, see grpcstack's TestRefusedTwice.
func framesPeer(t *testing.T, then func(stream)) (address string) {
	t.Helper()
	return peer(t, func(conn *net.TCPConn) {
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		framer := http2.NewFramer(conn, conn)
		_ = framer.WriteSettings()
		for { // to the end: what is unread then would become a reset
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			if data, is := frame.(*http2.DataFrame); is && data.StreamEnded() {
				then(stream{framer, conn, data.StreamID})
			}
		}
	})
}

// call makes a call of grpc-go with its defaults.
func call(ctx context.Context, t *testing.T, address string) error {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	return err
}

func resetStream(code http2.ErrCode) func(stream) {
	return func(s stream) { _ = s.WriteRSTStream(s.id, code) }
}

// answer ends the call with a status, as a handler would have it.
func answer(code, message string) func(stream) {
	return func(s stream) {
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		for _, field := range [][2]string{{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", code}, {"grpc-message", message}} {
			_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
		}
		_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
	}
}

// TestWhatCallsMeet has the texts from grpc-go itself.
func TestWhatCallsMeet(t *testing.T) {
	for name, c := range map[string]struct {
		peer func(stream)
		want failure.Class
	}{
		"refused stream":     {resetStream(http2.ErrCodeRefusedStream), failure.StreamRefused},
		"flow control":       {resetStream(http2.ErrCodeFlowControl), failure.FlowControl},
		"enhance your calm":  {resetStream(http2.ErrCodeEnhanceYourCalm), "stream-reset: ENHANCE_YOUR_CALM"},
		"internal error":     {resetStream(http2.ErrCodeInternal), "stream-reset: INTERNAL_ERROR"},
		"a status":           {answer("5", "no such user"), failure.Application},
		"unavailable":        {answer("14", "closed for lunch"), failure.Application},
		"a handler's reset":  {answer("2", "my backend: connection reset by peer"), failure.Application},
		"deadline in status": {answer("4", "mine was shorter"), failure.Deadline},
		"reset": {func(s stream) {
			_ = s.conn.SetLinger(0)
			_ = s.conn.Close()
		}, failure.Reset},
		"closed": {func(s stream) { _ = s.conn.CloseWrite() }, failure.Closed},
		"goaway, and closed in the call": {func(s stream) {
			_ = s.WriteGoAway(s.id, http2.ErrCodeNo, []byte("maintenance"))
			_ = s.conn.CloseWrite()
		}, failure.GoAway},
		"goaway before the call": {func(s stream) { _ = s.WriteGoAway(0, http2.ErrCodeNo, nil) }, failure.GoAway},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			expect(t, call(ctx, t, framesPeer(t, c.peer)), c.want)
		})
	}
}

func TestCallersGiveUp(t *testing.T) {
	silent := framesPeer(t, func(stream) {})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	expect(t, call(ctx, t, silent), failure.Deadline)
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	expect(t, call(ctx, t, silent), failure.Cancelled)
}

// TestWhatRequestsMeet has net/http's HTTP/2. A body that cannot be sent again
// keeps it from trying again.
func TestWhatRequestsMeet(t *testing.T) {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	for class, then := range map[failure.Class]func(stream){
		failure.StreamRefused:             resetStream(http2.ErrCodeRefusedStream),
		failure.FlowControl:               resetStream(http2.ErrCodeFlowControl),
		"stream-reset: ENHANCE_YOUR_CALM": resetStream(http2.ErrCodeEnhanceYourCalm),
		failure.GoAway: func(s stream) {
			_ = s.WriteGoAway(s.id, http2.ErrCodeEnhanceYourCalm, nil)
			_ = s.conn.CloseWrite()
		},
	} {
		body := struct{ io.Reader }{strings.NewReader("once")}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+framesPeer(t, then), body)
		if err != nil {
			t.Fatal(err)
		}
		_, err = transport.RoundTrip(request) //nolint:bodyclose // there is none
		expect(t, err, class)
	}
}

func TestWhatQUICMeets(t *testing.T) {
	server, good := web(t)
	own := server.TLS.Clone()
	own.NextProtos = []string{"x"}
	good.NextProtos = own.NextProtos
	listener, err := quic.ListenAddr("127.0.0.1:0", own, &quic.Config{MaxIncomingStreams: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	connect := func(config *quic.Config) (client, server *quic.Conn) {
		client, err := quic.DialAddr(t.Context(), listener.Addr().String(), good, config)
		if err != nil {
			t.Fatal(err)
		}
		server, err = listener.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return client, server
	}

	client, peer := connect(nil)
	if _, err := client.OpenStream(); err != nil {
		t.Fatal(err)
	}
	_, err = client.OpenStream()
	expect(t, err, failure.StreamRefused)
	_ = peer.CloseWithError(7, "enough")
	_, err = client.AcceptStream(t.Context())
	expect(t, err, failure.Closed)

	client, _ = connect(&quic.Config{MaxIdleTimeout: 50 * time.Millisecond})
	_, err = client.AcceptStream(t.Context())
	expect(t, err, failure.Silent)
}

func TestMarksDecide(t *testing.T) {
	marked := failure.WithClass(failure.FlowControl, io.EOF)
	expect(t, marked, failure.FlowControl)
	if marked.Error() != io.EOF.Error() {
		t.Errorf("a mark changed the text to %q", marked)
	}
}
