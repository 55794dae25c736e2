package http1

import (
	"bytes"
	"math"
)

// onField reads a header field. Three fields determine how the answer ends.
func (p *Parser) onField(line []byte) error {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 || line[0] <= ' ' || line[colon-1] <= ' ' {
		return malformed("a header line like %.40q", line)
	}
	if p.stage == trailer {
		return nil
	}
	name, value := line[:colon], line[colon+1:]
	switch {
	case colon == len("connection") && isName(name, "connection"):
		p.onConnection(value)
	case colon == len("content-length") && isName(name, "content-length"):
		return p.onContentLength(bytes.Trim(value, " \t"))
	case colon == len("transfer-encoding") && isName(name, "transfer-encoding"):
		return p.onTransferEncoding(bytes.Trim(value, " \t"))
	}
	return nil
}

// isName compares a name with one of the same length in small letters.
func isName(name []byte, with string) bool {
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
	for len(value) > 0 {
		option := value
		if comma := bytes.IndexByte(value, ','); comma >= 0 {
			option, value = value[:comma], value[comma+1:]
		} else {
			value = nil
		}
		option = bytes.Trim(option, " \t")
		switch {
		case len(option) == len("close") && isName(option, "close"):
			p.Close = true
		case len(option) == len("keep-alive") && isName(option, "keep-alive"):
			p.keepAlive = true
		}
	}
}

func (p *Parser) onContentLength(value []byte) error {
	length := int64(0)
	for _, digit := range value {
		if digit < '0' || digit > '9' || length > (math.MaxInt64-9)/10 {
			return malformed("a Content-Length of %.40q", value)
		}
		length = length*10 + int64(digit-'0')
	}
	if len(value) == 0 || p.length >= 0 && p.length != length {
		return malformed("a Content-Length of %.40q", value)
	}
	p.length = length
	return nil
}

func (p *Parser) onTransferEncoding(value []byte) error {
	if p.old {
		return nil // HTTP/1.0 has none
	}
	if p.chunked || len(value) != len("chunked") || !isName(value, "chunked") {
		return malformed("a Transfer-Encoding of %.40q, where only chunked was asked for", value)
	}
	p.chunked = true
	return nil
}

// onChunkLine reads a chunk's size, or the end of its bytes (RFC 9112, section 7.1).
func (p *Parser) onChunkLine(line []byte, crlf bool) error {
	if !crlf {
		return malformed("a line of a chunk that ends without a carriage return")
	}
	if p.stage == chunkEnd {
		if len(line) > 0 {
			return malformed("a chunk that is longer than its size")
		}
		p.stage = chunkSize
		return nil
	}
	if semicolon := bytes.IndexByte(line, ';'); semicolon >= 0 {
		line = line[:semicolon]
	}
	line = bytes.TrimRight(line, " \t")
	const maxDigits = 15 // what fits into an int64
	size := int64(0)
	for _, c := range line {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return malformed("a chunk's size of %.40q", line)
		}
		size = size<<4 | int64(c)
	}
	if len(line) == 0 || len(line) > maxDigits {
		return malformed("a chunk's size of %.40q", line)
	}
	if p.left, p.stage = size, chunk; size == 0 {
		p.stage = trailer
	}
	return nil
}
