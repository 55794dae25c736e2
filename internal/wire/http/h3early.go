package httpwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/quic-go/quic-go"

	"wirelab.dev/internal/wire/conn"
)

// quic-go's http3 sends only GET and HEAD before the handshake is done, since
// early data can be replayed (RFC 8470). A laboratory's calls are POSTs that may
// be replayed, so h3exchange.go sends them itself. It does not read the server's
// control stream: the connection ends with its only request.

// h3SingleUse is singleUse with early data, if the plan asks for it.
type h3SingleUse struct {
	*h3Client
	single *singleUse
}

func newH3SingleUse(ctx context.Context, client *h3Client) (*h3SingleUse, error) {
	single, err := newSingleUse(ctx, client.plan, client)
	return &h3SingleUse{client, single}, err
}

// RoundTrip opens a connection for the request and does not wait for its handshake.
// A request whose body cannot be sent twice does wait, since the server may refuse
// early data.
func (s *h3SingleUse) RoundTrip(request *http.Request) (*http.Response, error) {
	if s.plan.Lifecycle != conn.Early || !isRepeatable(request) {
		return s.single.RoundTrip(request)
	}
	begin := time.Now()
	conn, err := s.dialEarly(request.Context())
	if err != nil {
		return failRequest(request, err)
	}
	response, err := conn.exchange(request)
	select {
	case <-conn.handshake:
	case <-conn.gone:
	}
	if errors.Is(err, quic.Err0RTTRejected) {
		_ = conn.Close()
		return s.retryRefused(request)
	}
	if err != nil {
		if !isClosed(conn.handshake) {
			err = handshakeError(err)
		}
		_ = conn.Close()
		return failRequest(request, err)
	}
	s.plan.Dialer.FirstByte(time.Since(begin))
	response.Body = closeAfter(request.Context(), response.Body, conn)
	return response, nil
}

// isRepeatable reports whether a request can be sent again. It excludes requests
// with trailers, which no stack sends.
func isRepeatable(request *http.Request) bool {
	return (request.Body == nil || request.Body == http.NoBody || request.GetBody != nil) && len(request.Trailer) == 0
}

// retryRefused sends a request whose early data was refused again, on a connection
// that completes its handshake first.
func (s *h3SingleUse) retryRefused(request *http.Request) (*http.Response, error) {
	once := *request
	if request.GetBody != nil {
		body, err := request.GetBody()
		if err != nil {
			return nil, fmt.Errorf("the server refused early data, and the request's body cannot be read again: %w", err)
		}
		once.Body = body
	}
	return s.single.RoundTrip(&once)
}

// dialEarly opens a connection and does not wait for its handshake.
func (c *h3Client) dialEarly(ctx context.Context) (*h3Conn, error) {
	ctx, done, err := c.startAttempt(ctx)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	dialed, err := c.startDial(ctx, c.quic.DialEarly)
	if err != nil {
		done()
		return nil, err
	}
	opened := c.track(dialed)
	opened.handshake = make(chan struct{})
	// The goroutine ends with the handshake or the connection; Close waits for
	// it. Until then the attempt goes on and can be cancelled.
	go func() {
		defer done()
		select {
		case <-dialed.HandshakeComplete():
			took, state := time.Since(begin), dialed.ConnectionState()
			c.plan.Dialer.Handshake(conn.Handshake{Took: took, State: state.TLS, Early: state.Used0RTT, EarlyRefused: !state.Used0RTT})
			c.plan.Dialer.UsedProtocol("h3")
			close(opened.handshake)
		case <-dialed.Context().Done():
			c.plan.Dialer.HandshakeFailed()
		case <-ctx.Done():
			c.plan.Dialer.HandshakeFailed()
			_ = opened.Close()
		}
	}()
	return opened, nil
}

// controlStreamHead is the start of a control stream: its type and an empty
// SETTINGS frame (RFC 9114, sections 6.2.1 and 7.2.4).
var controlStreamHead = []byte{0x0, 0x4, 0x0}

// exchange sends the connection's only request and reads the response's header.
func (c *h3Conn) exchange(request *http.Request) (*http.Response, error) {
	stop := context.AfterFunc(request.Context(), func() { _ = c.Close() })
	defer stop()
	response, err := c.exchangeOn(request)
	if ended := request.Context().Err(); err != nil && ended != nil {
		return nil, ended
	}
	return response, err
}

func (c *h3Conn) exchangeOn(request *http.Request) (*http.Response, error) {
	control, err := c.quic.OpenUniStream()
	if err != nil {
		return nil, err
	}
	if _, err := control.Write(controlStreamHead); err != nil {
		return nil, err
	}
	stream, err := c.quic.OpenStreamSync(request.Context())
	if err != nil {
		return nil, err
	}
	sending := sendRequest(stream, request)
	if errors.Is(sending, quic.Err0RTTRejected) {
		return nil, sending
	}
	if sending == nil {
		sending = stream.Close()
	}
	response, err := readResponse(stream)
	if err != nil {
		return nil, errors.Join(err, sending)
	}
	state := c.quic.ConnectionState().TLS
	response.TLS, response.Request = &state, request
	return response, nil
}

// sendRequest sends the request's header and body, and closes the body.
func sendRequest(stream io.Writer, request *http.Request) error {
	if request.Body != nil {
		defer func() { _ = request.Body.Close() }()
	}
	_, err := stream.Write(encodeHeaders(request))
	if err != nil || request.Body == nil {
		return err
	}
	_, err = io.Copy(dataFrameWriter{stream}, request.Body)
	return err
}
