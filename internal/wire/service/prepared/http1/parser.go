// Package http1 reads the status and the length of HTTP/1.1 answers.
//
//	bytes ─> Parser.Feed ─> Status, Bytes, Close
//
// A [Parser] is a pure state machine: it keeps no bytes, and its result does not depend on how the
// input is split. It refuses everything that net/http refuses. It also refuses folded header lines
// and a few other forms that net/http accepts.
//
// The package must not know connections or requests.
package http1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
)

// Content says whether an answer may have a body. The caller knows this from the request.
type Content int

// The values of Content.
const (
	Body   Content = iota
	NoBody         // no body, although the fields describe one: for HEAD
)

// These limits bound the data that a server can send besides an answer's body.
const (
	maxLine           = 64 << 10  // bytes of one line; the caller keeps them until the line is complete
	maxHead           = 256 << 10 // bytes of all lines: headers, trailers and interim answers
	maxInterimAnswers = 100       // interim answers (1xx)
)

// ErrMalformed marks the errors of Feed.
var ErrMalformed = errors.New("malformed HTTP/1.1 answer")

func malformedf(format string, values ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, values...))
}

type parserStage uint8

const (
	statusLine parserStage = iota
	header
	body           // a body of known length
	bodyUntilClose // a body that ends with the connection
	chunkSize      // the line with a chunk's size
	chunk          // the bytes of a chunk
	chunkEnd       // the CRLF after a chunk
	trailer
	finished
)

// A Parser reads one answer. Call Begin before the next one.
type Parser struct {
	Status int
	Bytes  int64 // length of the body so far
	Close  bool  // the connection cannot carry another answer

	stage   parserStage
	content Content
	// The following fields describe the current header.
	old       bool  // the answer is HTTP/1.0
	keepAlive bool  // the server will keep the connection open
	chunked   bool  // the Transfer-Encoding is chunked
	length    int64 // Content-Length, or -1

	left     int64 // bytes of the body or chunk still to come
	searched int   // bytes already searched for the end of the current line
	lines    int   // total length of the lines so far, in bytes
	interim  int
}

// Begin prepares the parser for the next answer on a connection.
func (p *Parser) Begin(content Content) { *p = Parser{content: content, length: -1} }

// Started reports whether a part of the answer has arrived.
func (p *Parser) Started() bool { return p.lines > 0 }

// Feed parses buf. It returns the number of bytes that it used, and whether the answer is
// complete. The next buf must begin with the unused bytes.
func (p *Parser) Feed(buf []byte) (used int, done bool, err error) {
	for p.stage != finished {
		n, err := p.step(buf[used:])
		used += n
		if err != nil {
			return used, false, err
		}
		if n == 0 && p.stage != finished {
			return used, false, nil
		}
	}
	return used, true, nil
}

// step parses one line, or bytes of the body. It returns 0 if it needs more bytes.
func (p *Parser) step(buf []byte) (int, error) {
	switch p.stage {
	case body, chunk:
		n := int(min(int64(len(buf)), p.left))
		p.left -= int64(n)
		p.Bytes += int64(n)
		if p.left == 0 {
			p.stage++
			if p.stage == bodyUntilClose { // the stage was body, so the whole body has arrived
				p.stage = finished
			}
		}
		return n, nil
	case bodyUntilClose:
		p.Bytes += int64(len(buf))
		return len(buf), nil
	}
	return p.stepLine(buf)
}

func (p *Parser) stepLine(buf []byte) (int, error) {
	if begin := buf[:min(len(buf), len(versionPrefix))]; p.stage == statusLine && string(begin) != versionPrefix[:len(begin)] {
		return 0, malformedf("the first bytes are %.40q", buf)
	}
	end := bytes.IndexByte(buf[p.searched:], '\n')
	if end >= 0 {
		end += p.searched
	}
	switch {
	case end > maxLine, end < 0 && len(buf) > maxLine:
		return 0, malformedf("a line has more than %d bytes", maxLine)
	case end < 0:
		p.searched = len(buf)
		return 0, nil
	}
	p.searched = 0
	line := buf[:end]
	crlf := end > 0 && line[end-1] == '\r'
	if crlf {
		line = line[:end-1]
	}
	if p.stage == chunkSize || p.stage == chunkEnd {
		return end + 1, p.onChunkLine(line, crlf)
	}
	if p.lines += end + 1; p.lines > maxHead {
		return 0, malformedf("the header has more than %d bytes", maxHead)
	}
	switch {
	case p.stage == statusLine:
		return end + 1, p.onStatusLine(line)
	case len(line) == 0 && p.stage == header:
		return end + 1, p.onHeaderEnd()
	case len(line) == 0:
		p.stage = finished
		return end + 1, nil
	}
	return end + 1, p.onField(line)
}

// versionPrefix begins every answer. The minor version follows.
const versionPrefix = "HTTP/1."

// onStatusLine reads, for instance, HTTP/1.1 200 OK (RFC 9112, section 4).
func (p *Parser) onStatusLine(line []byte) error {
	const code = len(versionPrefix) + len("1 ")
	if len(line) < code+3 || line[code-1] != ' ' || len(line) > code+3 && line[code+3] != ' ' {
		return malformedf("the status line is %.40q", line)
	}
	status := 0
	for _, digit := range line[code : code+3] {
		if digit < '0' || digit > '9' {
			return malformedf("the status line is %.40q", line)
		}
		status = status*10 + int(digit-'0')
	}
	minor := line[len(versionPrefix)]
	if minor > '1' || minor < '0' || status < 100 {
		return malformedf("the status line is %.40q", line)
	}
	p.Status, p.old, p.stage = status, minor == '0', header
	p.keepAlive, p.Close, p.chunked, p.length = false, false, false, -1
	return nil
}

// onHeaderEnd determines the body's length and coding (RFC 9112, section 6.3).
func (p *Parser) onHeaderEnd() error {
	if p.Status < http.StatusOK && p.Status != http.StatusSwitchingProtocols {
		p.interim++
		if p.interim > maxInterimAnswers {
			return malformedf("the server sent more than %d interim answers", maxInterimAnswers)
		}
		p.stage = statusLine
		return nil
	}
	p.Close = p.Close || p.old && !p.keepAlive || p.Status == http.StatusSwitchingProtocols
	switch {
	case p.content == NoBody, p.Status < http.StatusOK, p.Status == http.StatusNoContent, p.Status == http.StatusNotModified:
		p.stage = finished
	case p.chunked:
		p.stage = chunkSize
	case p.length == 0:
		p.stage = finished
	case p.length > 0:
		p.stage, p.left = body, p.length
	default:
		p.stage, p.Close = bodyUntilClose, true
	}
	return nil
}

// End returns nil if the connection's end completes the answer, and otherwise an error.
func (p *Parser) End() error {
	switch {
	case p.stage == bodyUntilClose, p.stage == finished:
		return nil
	case !p.Started():
		return io.EOF
	}
	return io.ErrUnexpectedEOF
}

// onField reads a header field. Three fields determine how the answer ends.
func (p *Parser) onField(line []byte) error {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 || line[0] <= ' ' || line[colon-1] <= ' ' {
		return malformedf("a header line is %.40q", line)
	}
	if p.stage == trailer {
		return nil
	}
	name, value := line[:colon], line[colon+1:]
	switch {
	case equalsLower(name, "connection"):
		p.onConnection(value)
	case equalsLower(name, "content-length"):
		return p.onContentLength(bytes.Trim(value, " \t"))
	case equalsLower(name, "transfer-encoding"):
		return p.onTransferEncoding(bytes.Trim(value, " \t"))
	}
	return nil
}

var comma = []byte(",")

// equalsLower compares name with a lower-case text, and ignores the case of name.
func equalsLower(name []byte, with string) bool {
	if len(name) != len(with) {
		return false
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != with[i] {
			return false
		}
	}
	return true
}

func (p *Parser) onConnection(value []byte) {
	for option := range bytes.SplitSeq(value, comma) {
		option = bytes.Trim(option, " \t")
		p.Close = p.Close || equalsLower(option, "close")
		p.keepAlive = p.keepAlive || equalsLower(option, "keep-alive")
	}
}

func (p *Parser) onContentLength(value []byte) error {
	length := int64(0)
	for _, digit := range value {
		if digit < '0' || digit > '9' || length > (math.MaxInt64-9)/10 {
			return malformedf("the Content-Length is %.40q", value)
		}
		length = length*10 + int64(digit-'0')
	}
	if len(value) == 0 || p.length >= 0 && p.length != length {
		return malformedf("the Content-Length is %.40q", value)
	}
	p.length = length
	return nil
}

func (p *Parser) onTransferEncoding(value []byte) error {
	if p.old {
		return nil // HTTP/1.0 does not define Transfer-Encoding
	}
	if p.chunked || !equalsLower(value, "chunked") {
		return malformedf("the Transfer-Encoding is %.40q: want chunked", value)
	}
	p.chunked = true
	return nil
}

// onChunkLine reads a chunk's size line, or the line end after a chunk (RFC 9112, section 7.1).
func (p *Parser) onChunkLine(line []byte, crlf bool) error {
	if !crlf {
		return malformedf("a chunk line does not end with a carriage return")
	}
	if p.stage == chunkEnd {
		if len(line) > 0 {
			return malformedf("a chunk is longer than its declared size")
		}
		p.stage = chunkSize
		return nil
	}
	if semicolon := bytes.IndexByte(line, ';'); semicolon >= 0 {
		line = line[:semicolon]
	}
	line = bytes.TrimRight(line, " \t")
	const maxDigits = 15 // an int64 has room for these digits
	size := int64(0)
	for _, c := range line {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return malformedf("a chunk's size is %.40q", line)
		}
		size = size<<4 | int64(c)
	}
	if len(line) == 0 || len(line) > maxDigits {
		return malformedf("a chunk's size is %.40q", line)
	}
	if p.left, p.stage = size, chunk; size == 0 {
		p.stage = trailer
	}
	return nil
}
