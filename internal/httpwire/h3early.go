package httpwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/quic-go/quic-go"
)

// quic-go's http3 sends only GET and HEAD before the handshake is done, since
// early data can be replayed (RFC 8470). A laboratory's calls are POSTs whose
// replay hurts nobody, so their one exchange is spoken here (h3exchange.go). A
// connection that ends with it has no use for what the server's control stream
// says, and does not read it.

// roundTripEarly gives the request a connection of its own, and does not wait
// for its handshake. A request that could not be sent again, because its body
// is not at hand, does wait: the server may refuse early data.
func (c *h3Client) roundTripEarly(request *http.Request) (*http.Response, error) {
	if !repeatable(request) {
		return c.roundTripAlone(request)
	}
	begin := time.Now()
	conn, err := c.dialEarly(request.Context())
	if err != nil {
		return nil, err
	}
	response, err := conn.exchange(request)
	select {
	case <-conn.shaken:
	case <-conn.gone:
	}
	if errors.Is(err, quic.Err0RTTRejected) {
		conn.close()
		return c.again(request)
	}
	if err != nil {
		if !conn.hasShaken() {
			err = inHandshake(err)
		}
		conn.close()
		return nil, err
	}
	c.plan.Dialer.FirstByte(time.Since(begin))
	response.Body = conn.closeWith(request.Context(), response.Body)
	return response, nil
}

// repeatable tells whether a request could be sent again. One with trailers
// could, but is nobody's call.
func repeatable(request *http.Request) bool {
	return (request.Body == nil || request.Body == http.NoBody || request.GetBody != nil) && len(request.Trailer) == 0
}

// again makes a request whose early data was refused once more, on a connection
// that shakes hands first.
func (c *h3Client) again(request *http.Request) (*http.Response, error) {
	once := *request
	if request.GetBody != nil {
		body, err := request.GetBody()
		if err != nil {
			return nil, fmt.Errorf("early data was refused, and the request is not at hand any more: %w", err)
		}
		once.Body = body
	}
	return c.roundTripAlone(&once)
}

// dialEarly opens a connection that is still shaking hands.
func (c *h3Client) dialEarly(ctx context.Context) (*h3Conn, error) {
	ctx, done, err := c.attempt(ctx)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	conn, err := c.begin(ctx, c.quic.DialEarly)
	if err != nil {
		done()
		return nil, err
	}
	opened := c.adopt(conn)
	opened.shaken = make(chan struct{})
	// The goroutine ends with the handshake or the connection; Close waits for
	// it. Until then the attempt goes on, and can still be refused.
	go func() {
		defer done()
		select {
		case <-conn.HandshakeComplete():
			took, state := time.Since(begin), conn.ConnectionState()
			c.observer.Handshake(Handshake{Took: took, State: state.TLS, Early: state.Used0RTT, EarlyRefused: !state.Used0RTT})
			c.plan.Dialer.Spoke("h3")
			close(opened.shaken)
		case <-conn.Context().Done():
			c.observer.HandshakeFailed()
		case <-ctx.Done():
			c.observer.HandshakeFailed()
			opened.close()
		}
	}()
	return opened, nil
}

// noSettings begins a control stream: its type, and an empty SETTINGS frame
// (RFC 9114, sections 6.2.1 and 7.2.4).
var noSettings = []byte{0x0, 0x4, 0x0}

// exchange makes the one request of a connection on a stream of its own.
func (c *h3Conn) exchange(request *http.Request) (*http.Response, error) {
	stop := context.AfterFunc(request.Context(), c.close)
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
	if _, err := control.Write(noSettings); err != nil {
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

// sendRequest sends header and body, and closes the body.
func sendRequest(stream io.Writer, request *http.Request) error {
	if request.Body != nil {
		defer func() { _ = request.Body.Close() }()
	}
	_, err := stream.Write(requestHead(request))
	if err != nil || request.Body == nil {
		return err
	}
	_, err = io.Copy(dataFrames{stream}, request.Body)
	return err
}
