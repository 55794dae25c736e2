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

// quic-go's http3 sends only GET and HEAD requests before the handshake is done, because an
// attacker can replay early data (RFC 8470). wirelab's POST requests may be replayed, so exchange
// sends them itself. It does not read the server's control stream: the connection ends after one
// request.

// newH3RoundTripper opens the kept connections, or returns a RoundTripper without kept connections.
func newH3RoundTripper(ctx context.Context, client *h3Client) (http.RoundTripper, error) {
	if client.plan.Lifecycle == conn.Kept {
		return openPool(ctx, client.plan, client)
	}
	single, err := newSingleUseRoundTripper(ctx, client.plan, client)
	if client.plan.Lifecycle == conn.Early {
		return &earlyDataRoundTripper{client, single}, err
	}
	return single, err
}

// earlyDataRoundTripper opens one connection per request and sends the request as early data.
type earlyDataRoundTripper struct {
	*h3Client
	single *singleUseRoundTripper
}

// RoundTrip opens a connection for the request without waiting for its handshake. It waits if the
// body cannot be sent twice, because the server may refuse early data.
func (s *earlyDataRoundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
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

// isRepeatable reports whether a request can be sent twice. It ignores trailers, which no stack
// sends.
func isRepeatable(request *http.Request) bool {
	return (request.Body == nil || request.Body == http.NoBody || request.GetBody != nil) && len(request.Trailer) == 0
}

// retryRefused sends a request again, on a connection whose handshake is done.
func (s *earlyDataRoundTripper) retryRefused(request *http.Request) (*http.Response, error) {
	once := *request
	if request.GetBody != nil {
		body, err := request.GetBody()
		if err != nil {
			return nil, fmt.Errorf("the server refused early data, and the request's body cannot be read again: %w", err)
		}
		once.Body = body
	}
	s.plan.Dialer.SentAgain()
	return s.single.RoundTrip(&once)
}

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
	// The goroutine ends when the handshake or the connection ends. Close waits for the goroutine,
	// and can cancel the attempt.
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

// These are the frame types of a request stream (RFC 9114, section 7.2). Others are skipped.
const (
	frameData    = 0x0
	frameHeaders = 0x1
)

// errMalformed marks errors about responses that violate RFC 9114.
var errMalformed = errors.New("malformed HTTP/3 response")

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
			continue // encoded elsewhere here, or not allowed (RFC 9114, section 4.2)
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

type dataFrameWriter struct{ stream io.Writer }

func (d dataFrameWriter) Write(p []byte) (int, error) {
	head := quicvarint.Append(nil, frameData)
	head = quicvarint.Append(head, uint64(len(p)))
	if _, err := d.stream.Write(head); err != nil {
		return 0, err
	}
	return d.stream.Write(p)
}

// responseStream reads a response from a request stream. It is also the response's body. Only one
// goroutine may use it.
type responseStream struct {
	from     *bufio.Reader
	response *http.Response
	left     uint64 // bytes left in the current DATA frame
	ended    bool   // trailers were read
}

// readResponse reads a response's header. Its caller reads the body. The response gets its trailers
// when the body ends.
func readResponse(stream io.Reader) (*http.Response, error) {
	a := &responseStream{from: bufio.NewReader(stream)}
	for {
		kind, length, err := a.readFrameHeader()
		if err != nil {
			return nil, asUnexpectedEOF(err)
		}
		switch kind {
		case frameData:
			return nil, fmt.Errorf("%w: a DATA frame came before the HEADERS frame", errMalformed)
		case frameHeaders:
			header, err := a.readHeaderBlock(length)
			if err != nil {
				return nil, err
			}
			response, err := a.newResponse(header)
			if response != nil || err != nil {
				return response, err
			}
		default:
			if err := a.skipFrame(length); err != nil {
				return nil, err
			}
		}
	}
}

// newResponse makes a response from its header. It returns nil for an informational response (1xx).
func (a *responseStream) newResponse(header http.Header) (*http.Response, error) {
	const status = ":status"
	code, err := strconv.Atoi(header.Get(status))
	if err != nil || code < 100 || code > 999 {
		return nil, fmt.Errorf("%w: the status is %.20q", errMalformed, header.Get(status))
	}
	if code < http.StatusOK {
		return nil, nil //nolint:nilnil // the final response follows
	}
	header.Del(status)
	length := int64(-1)
	if text := header.Get("Content-Length"); text != "" {
		if length, err = strconv.ParseInt(text, 10, 64); err != nil || length < 0 {
			return nil, fmt.Errorf("%w: the content-length is %.20q", errMalformed, text)
		}
	}
	a.response = &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code,
		Proto: "HTTP/3.0", ProtoMajor: 3,
		Header: header, ContentLength: length, Body: a,
	}
	return a.response, nil
}

// readFrameHeader reads a frame's type and length. It returns io.EOF at the end of the stream.
func (a *responseStream) readFrameHeader() (kind, length uint64, err error) {
	if _, err := a.from.Peek(1); err != nil {
		return 0, 0, err
	}
	if kind, err = quicvarint.Read(a.from); err != nil {
		return 0, 0, asUnexpectedEOF(err)
	}
	if length, err = quicvarint.Read(a.from); err != nil {
		return 0, 0, asUnexpectedEOF(err)
	}
	return kind, length, nil
}

func (a *responseStream) readHeaderBlock(length uint64) (http.Header, error) {
	if length > maxHeaderBytes {
		return nil, fmt.Errorf("%w: the header has %d bytes, which is too long", errMalformed, length)
	}
	block := make([]byte, length)
	if _, err := io.ReadFull(a.from, block); err != nil {
		return nil, asUnexpectedEOF(err)
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

func (a *responseStream) skipFrame(length uint64) error {
	if length > maxHeaderBytes {
		return fmt.Errorf("%w: a frame of unknown type has %d bytes, which is too long", errMalformed, length)
	}
	_, err := a.from.Discard(int(length))
	return asUnexpectedEOF(err)
}

// Read reads the body.
func (a *responseStream) Read(p []byte) (int, error) {
	for a.left == 0 {
		kind, length, err := a.readFrameHeader()
		switch {
		case err != nil:
			return 0, err
		case kind == frameData && !a.ended:
			a.left = length
		case kind == frameHeaders && !a.ended:
			a.ended = true
			if a.response.Trailer, err = a.readHeaderBlock(length); err != nil {
				return 0, err
			}
		case kind == frameData || kind == frameHeaders:
			return 0, fmt.Errorf("%w: another frame came after the trailers", errMalformed)
		default:
			if err := a.skipFrame(length); err != nil {
				return 0, err
			}
		}
	}
	n, err := a.from.Read(p[:min(uint64(len(p)), a.left)])
	a.left -= uint64(n)
	if a.left > 0 || n == 0 {
		err = asUnexpectedEOF(err)
	}
	return n, err
}

// Close does nothing: closingBody closes the connection.
func (a *responseStream) Close() error { return nil }

// asUnexpectedEOF replaces io.EOF with io.ErrUnexpectedEOF.
func asUnexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
