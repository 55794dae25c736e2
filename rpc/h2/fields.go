package h2

import (
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// A fieldCheck detects malformed requests and responses (RFC 9113 sections 8.2 and 8.3).
// It checks one field at a time, so its state after cached fields can be cached too.
type fieldCheck struct {
	regular       bool // a regular field has been seen
	seen          pseudoFields
	informational bool // :status 1xx
	malformed     string
	contentLength int64 // one more than its value; 0 without content-length
}

type pseudoFields uint8

const (
	pseudoMethod pseudoFields = 1 << iota
	pseudoScheme
	pseudoPath
	pseudoAuthority
	pseudoStatus
)

func (c *fieldCheck) add(f hpack.HeaderField) {
	if c.malformed == "" {
		c.malformed = c.check(f)
	}
}

func (c *fieldCheck) check(f hpack.HeaderField) string {
	if !f.IsPseudo() {
		c.regular = true
		return c.checkRegular(f)
	}
	if c.regular {
		return "pseudo-header after a regular field"
	}
	kind := pseudoKinds[f.Name]
	switch {
	case kind == 0:
		return "unknown pseudo-header"
	case c.seen&kind != 0:
		return "repeated pseudo-header"
	case kind == pseudoPath && f.Value == "":
		return "empty path"
	}
	c.seen |= kind
	c.informational = kind == pseudoStatus && strings.HasPrefix(f.Value, "1")
	return ""
}

func (c *fieldCheck) checkRegular(f hpack.HeaderField) string {
	if f.Name == "" {
		return "empty field name"
	}
	for i := range len(f.Name) {
		if b := f.Name[i]; b <= ' ' || b >= 0x7f || b == ':' || 'A' <= b && b <= 'Z' {
			return "field name with a forbidden character"
		}
	}
	if strings.ContainsAny(f.Value, "\x00\r\n") {
		return "field value with a forbidden character"
	}
	switch f.Name {
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		return "connection-specific field"
	case "te":
		if f.Value != "trailers" {
			return "te other than trailers"
		}
	case "content-length":
		n, err := strconv.ParseUint(f.Value, 10, 62)
		if err != nil || c.contentLength != 0 && c.contentLength != int64(n)+1 {
			return "bad content-length"
		}
		c.contentLength = int64(n) + 1
	}
	return ""
}

var pseudoKinds = map[string]pseudoFields{
	":method": pseudoMethod, ":scheme": pseudoScheme, ":path": pseudoPath,
	":authority": pseudoAuthority, ":status": pseudoStatus,
}

// request returns the reason why a block is not a valid request header, or "".
func (c *fieldCheck) request() string {
	const required = pseudoMethod | pseudoScheme | pseudoPath
	return c.expect(c.seen&required == required && c.seen&pseudoStatus == 0, "request without :method, :scheme or :path, or with :status")
}

// response returns the reason why a block is not a valid response header, or "".
func (c *fieldCheck) response() string {
	return c.expect(c.seen == pseudoStatus, "response without :status, or with other pseudo-headers")
}

// trailers returns the reason why a block is not valid trailers, or "".
func (c *fieldCheck) trailers() string {
	return c.expect(c.seen == 0, "pseudo-header in trailers")
}

func (c *fieldCheck) expect(valid bool, fault string) string {
	if c.malformed != "" || valid {
		return c.malformed
	}
	return fault
}
