package httpwire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"

	"wirelab.dev/internal/wire/conn"
)

// quic-go's http3 sends only GET and HEAD before the handshake is done, since
// early data can be replayed (RFC 8470). A laboratory's calls are POSTs that may
// be replayed, so exchange sends them itself. It does not read the server's
// control stream: the connection ends with its only request.

// newH3Carrier opens the connections that carry the client's requests.
func newH3Carrier(ctx context.Context, client *h3Client) (http.RoundTripper, error) {
	if client.plan.Lifecycle == conn.Kept {
		return openPool(ctx, client.plan, client)
	}
	single, err := newSingleUse(ctx, client.plan, client)
	if client.plan.Lifecycle == conn.Early {
		return &earlyUse{client, single}, err
	}
	return single, err
}

// earlyUse is singleUse with early data.
type earlyUse struct {
	*h3Client
	single *singleUse
}

// RoundTrip opens a connection for the request and does not wait for its handshake, unless the
// body cannot be sent twice: the server may refuse early data.
func (s *earlyUse) RoundTrip(request *http.Request) (*http.Response, error) {
	if !isRepeatable(request) {
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

// isRepeatable reports whether a request can be sent again. No stack sends trailers.
func isRepeatable(request *http.Request) bool {
	return (request.Body == nil || request.Body == http.NoBody || request.GetBody != nil) && len(request.Trailer) == 0
}

// retryRefused sends a request again on a connection that completes its handshake first.
func (s *earlyUse) retryRefused(request *http.Request) (*http.Response, error) {
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

// Frames of a request stream (RFC 9114, section 7.2). Other types are skipped.
const (
	frameData    = 0x0
	frameHeaders = 0x1
)

// errMalformed is wrapped by errors about responses that violate RFC 9114.
var errMalformed = errors.New("malformed HTTP/3 response")

// encodeHeaders returns a request's HEADERS frame.
func encodeHeaders(request *http.Request) []byte {
	var block bytes.Buffer
	encoder := qpack.NewEncoder(&block)
	field := func(name, value string) {
		_ = encoder.WriteField(qpack.HeaderField{Name: name, Value: value}) // a bytes.Buffer returns no error
	}
	host := request.Host
	if host == "" {
		host = request.URL.Host
	}
	field(":method", request.Method)
	field(":scheme", request.URL.Scheme)
	field(":authority", host)
	field(":path", request.URL.RequestURI())
	for name, values := range request.Header {
		switch name = strings.ToLower(name); name {
		case "host", "connection", "transfer-encoding", "content-length":
			continue // written above or below, or not allowed (RFC 9114, section 4.2)
		}
		for _, value := range values {
			field(name, value)
		}
	}
	if request.ContentLength > 0 {
		field("content-length", strconv.FormatInt(request.ContentLength, 10))
	}
	head := quicvarint.Append(nil, frameHeaders)
	head = quicvarint.Append(head, uint64(block.Len()))
	return append(head, block.Bytes()...)
}

// dataFrameWriter writes the bytes of each Write as a DATA frame.
type dataFrameWriter struct{ stream io.Writer }

func (d dataFrameWriter) Write(p []byte) (int, error) {
	head := quicvarint.Append(nil, frameData)
	head = quicvarint.Append(head, uint64(len(p)))
	if _, err := d.stream.Write(head); err != nil {
		return 0, err
	}
	return d.stream.Write(p)
}

// responseStream reads the response from a request stream, and is its body, for one goroutine.
type responseStream struct {
	from     *bufio.Reader
	response *http.Response
	left     uint64 // bytes left in the current DATA frame
	ended    bool   // trailers were read
}

// readResponse reads a response's header. The caller reads the body from the stream; at its end
// the trailers are set.
func readResponse(stream io.Reader) (*http.Response, error) {
	a := &responseStream{from: bufio.NewReader(stream)}
	for {
		kind, length, err := a.frame()
		if err != nil {
			return nil, unexpectedEOF(err)
		}
		switch kind {
		case frameData:
			return nil, fmt.Errorf("%w: DATA before HEADERS", errMalformed)
		case frameHeaders:
			header, err := a.header(length)
			if err != nil {
				return nil, err
			}
			response, err := a.begin(header)
			if response != nil || err != nil {
				return response, err
			}
		default:
			if err := a.skip(length); err != nil {
				return nil, err
			}
		}
	}
}

// begin makes a response from its header, or returns nil for an informational one (1xx).
func (a *responseStream) begin(header http.Header) (*http.Response, error) {
	const status = ":status"
	code, err := strconv.Atoi(header.Get(status))
	if err != nil || code < 100 || code > 999 {
		return nil, fmt.Errorf("%w: status %.20q", errMalformed, header.Get(status))
	}
	if code < http.StatusOK {
		return nil, nil //nolint:nilnil // the final response follows
	}
	header.Del(status)
	length := int64(-1)
	if text := header.Get("Content-Length"); text != "" {
		if length, err = strconv.ParseInt(text, 10, 64); err != nil || length < 0 {
			return nil, fmt.Errorf("%w: content-length %.20q", errMalformed, text)
		}
	}
	a.response = &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code,
		Proto: "HTTP/3.0", ProtoMajor: 3,
		Header: header, ContentLength: length, Body: a,
	}
	return a.response, nil
}

// frame reads a frame's type and length. It returns io.EOF at the stream's end.
func (a *responseStream) frame() (kind, length uint64, err error) {
	if _, err := a.from.Peek(1); err != nil {
		return 0, 0, err
	}
	if kind, err = quicvarint.Read(a.from); err != nil {
		return 0, 0, unexpectedEOF(err)
	}
	if length, err = quicvarint.Read(a.from); err != nil {
		return 0, 0, unexpectedEOF(err)
	}
	return kind, length, nil
}

// header reads a header block.
func (a *responseStream) header(length uint64) (http.Header, error) {
	if length > maxHeaderBytes {
		return nil, fmt.Errorf("%w: a header of %d bytes", errMalformed, length)
	}
	block := make([]byte, length)
	if _, err := io.ReadFull(a.from, block); err != nil {
		return nil, unexpectedEOF(err)
	}
	header := http.Header{}
	for next := qpack.NewDecoder().Decode(block); ; {
		field, err := next()
		if errors.Is(err, io.EOF) {
			return header, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errMalformed, err)
		}
		header.Add(field.Name, field.Value)
	}
}

func (a *responseStream) skip(length uint64) error {
	if length > maxHeaderBytes {
		return fmt.Errorf("%w: an unknown frame of %d bytes", errMalformed, length)
	}
	_, err := a.from.Discard(int(length))
	return unexpectedEOF(err)
}

// Read reads the body.
func (a *responseStream) Read(p []byte) (int, error) {
	for a.left == 0 {
		kind, length, err := a.frame()
		switch {
		case err != nil:
			return 0, err
		case kind == frameData && !a.ended:
			a.left = length
		case kind == frameHeaders && !a.ended:
			a.ended = true
			if a.response.Trailer, err = a.header(length); err != nil {
				return 0, err
			}
		case kind == frameData || kind == frameHeaders:
			return 0, fmt.Errorf("%w: a frame after the trailers", errMalformed)
		default:
			if err := a.skip(length); err != nil {
				return 0, err
			}
		}
	}
	n, err := a.from.Read(p[:min(uint64(len(p)), a.left)])
	a.left -= uint64(n)
	if a.left > 0 || n == 0 {
		err = unexpectedEOF(err)
	}
	return n, err
}

// Close implements io.Closer. It does nothing: lastBody closes the connection.
func (a *responseStream) Close() error { return nil }

// unexpectedEOF returns io.ErrUnexpectedEOF for io.EOF, and other errors as they are.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
