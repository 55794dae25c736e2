package httpwire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go/quicvarint"
)

// Frames of a request stream (RFC 9114, section 7.2). All others are passed over.
const (
	frameData    = 0x0
	frameHeaders = 0x1
)

// errMalformed is a response that breaks RFC 9114.
var errMalformed = errors.New("malformed HTTP/3 response")

// requestHead is a request's HEADERS frame.
func requestHead(request *http.Request) []byte {
	var block bytes.Buffer
	encoder := qpack.NewEncoder(&block)
	field := func(name, value string) {
		_ = encoder.WriteField(qpack.HeaderField{Name: name, Value: value}) // a bytes.Buffer takes everything
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
			continue // said above, below, or not at all (RFC 9114, section 4.2)
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

// dataFrames writes each piece as a DATA frame.
type dataFrames struct{ stream io.Writer }

func (d dataFrames) Write(p []byte) (int, error) {
	head := quicvarint.Append(nil, frameData)
	head = quicvarint.Append(head, uint64(len(p)))
	if _, err := d.stream.Write(head); err != nil {
		return 0, err
	}
	return d.stream.Write(p)
}

// answerStream reads the response of a request stream. As its body it belongs
// to one reader.
type answerStream struct {
	from     *bufio.Reader
	response *http.Response
	left     uint64 // of the DATA frame that is being read
	ended    bool   // by trailers
}

// readResponse reads a response's header. Its body is read from the stream, and
// its trailers are there when the body is.
func readResponse(stream io.Reader) (*http.Response, error) {
	a := &answerStream{from: bufio.NewReader(stream)}
	for {
		kind, length, err := a.frame()
		if err != nil {
			return nil, unexpected(err)
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

// begin makes a response of its header; of an informational one, nothing.
func (a *answerStream) begin(header http.Header) (*http.Response, error) {
	const status = ":status"
	code, err := strconv.Atoi(header.Get(status))
	if err != nil || code < 100 || code > 999 {
		return nil, fmt.Errorf("%w: status %.20q", errMalformed, header.Get(status))
	}
	if code < http.StatusOK {
		return nil, nil //nolint:nilnil // what comes next is the response
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

// frame reads the head of a frame; io.EOF where the stream ends before one.
func (a *answerStream) frame() (kind, length uint64, err error) {
	if _, err := a.from.Peek(1); err != nil {
		return 0, 0, err
	}
	if kind, err = quicvarint.Read(a.from); err != nil {
		return 0, 0, unexpected(err)
	}
	if length, err = quicvarint.Read(a.from); err != nil {
		return 0, 0, unexpected(err)
	}
	return kind, length, nil
}

// header reads a block of fields.
func (a *answerStream) header(length uint64) (http.Header, error) {
	if length > maxHeaderBytes {
		return nil, fmt.Errorf("%w: a header of %d bytes", errMalformed, length)
	}
	block := make([]byte, length)
	if _, err := io.ReadFull(a.from, block); err != nil {
		return nil, unexpected(err)
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

func (a *answerStream) skip(length uint64) error {
	if length > maxHeaderBytes {
		return fmt.Errorf("%w: an unknown frame of %d bytes", errMalformed, length)
	}
	_, err := a.from.Discard(int(length))
	return unexpected(err)
}

// Read reads the body.
func (a *answerStream) Read(p []byte) (int, error) {
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
		err = unexpected(err)
	}
	return n, err
}

// Close implements io.Closer. The connection ends with the body.
func (a *answerStream) Close() error { return nil }

// unexpected is the error of a stream that ends where it should not.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
