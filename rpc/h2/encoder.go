package h2

import (
	"bytes"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

// FixedFields are the first header fields of many blocks. Each connection caches their encoding
// until its dynamic table changes. So encoding them again only copies a few bytes. Several
// connections may use the same FixedFields at once.
type FixedFields struct {
	Fields []hpack.HeaderField
	size   uint64
}

// NewFixedFields returns FixedFields. The caller must not change fields afterwards.
func NewFixedFields(fields ...hpack.HeaderField) *FixedFields {
	f := &FixedFields{Fields: fields}
	for _, field := range fields {
		f.size += uint64(field.Size())
	}
	return f
}

// Size returns the fields' size as SETTINGS_MAX_HEADER_LIST_SIZE defines it.
func (f *FixedFields) Size() uint64 { return f.size }

// An encoder encodes header blocks. Only fixed fields enter the dynamic table. Other fields are
// literals that do not change the table, so the cached encodings stay valid.
type encoder struct {
	hpack      *hpack.Encoder
	scratch    bytes.Buffer
	blocks     map[*FixedFields][]byte
	insertions int // number of FixedFields that changed the dynamic table
	resized    bool
}

const (
	// maxInsertions is the number of FixedFields that may enter the table. Others are literals: a
	// client with very many methods would otherwise remove its own entries at each call.
	maxInsertions   = 32
	maxCachedBlocks = 1024
)

func newEncoder() *encoder {
	e := &encoder{blocks: make(map[*FixedFields][]byte)}
	e.hpack = hpack.NewEncoder(&e.scratch)
	return e
}

// setTableLimit applies SETTINGS_HEADER_TABLE_SIZE. The next block must begin with a size update.
func (e *encoder) setTableLimit(size uint32) {
	e.hpack.SetMaxDynamicTableSizeLimit(size)
	e.insertions = 0
	e.resized = true
	clear(e.blocks)
}

// appendResize appends the pending size updates. The HPACK encoder writes updates only before a
// field, so appendResize encodes a field of a single byte and removes that byte.
func (e *encoder) appendResize(dst []byte) []byte {
	e.resized = false
	e.scratch.Reset()
	_ = e.hpack.WriteField(hpack.HeaderField{Name: ":method", Value: "GET"})
	return append(dst, e.scratch.Bytes()[:e.scratch.Len()-1]...)
}

func (e *encoder) appendBlock(dst []byte, fixed *FixedFields, extra []hpack.HeaderField) []byte {
	if e.resized {
		dst = e.appendResize(dst)
	}
	if block, ok := e.blocks[fixed]; ok {
		dst = append(dst, block...)
	} else {
		dst = e.appendFixed(dst, fixed)
	}
	return appendLiterals(dst, extra)
}

// appendFixed encodes fixed fields with the dynamic table. If that inserts an entry, all cached
// blocks become invalid, and this block is cached only when it is encoded again.
func (e *encoder) appendFixed(dst []byte, fixed *FixedFields) []byte {
	start := len(dst)
	if e.insertions < maxInsertions {
		e.scratch.Reset()
		for _, f := range fixed.Fields {
			_ = e.hpack.WriteField(f) // writing to a bytes.Buffer cannot fail
		}
		dst = append(dst, e.scratch.Bytes()...)
	} else {
		dst = appendLiterals(dst, fixed.Fields)
	}
	if block := dst[start:]; scanBlock(block)&kindChanges != 0 {
		e.insertions++
		clear(e.blocks)
	} else if len(e.blocks) < maxCachedBlocks {
		e.blocks[fixed] = bytes.Clone(block)
	}
	return dst
}

func appendLiterals(dst []byte, fields []hpack.HeaderField) []byte {
	for _, f := range fields {
		dst = appendLiteral(dst, f)
	}
	return dst
}

// appendLiteral encodes a field as a literal without indexing and without Huffman
// coding (RFC 7541 section 6.2.2), the cheapest form for both ends.
func appendLiteral(dst []byte, f hpack.HeaderField) []byte {
	first := byte(0)
	if f.Sensitive {
		first = 0x10 // never indexed (section 6.2.3)
	}
	dst = append(dst, first)
	dst = appendString(dst, f.Name)
	return appendString(dst, f.Value)
}

func appendString(dst []byte, s string) []byte {
	const prefixMax = 1<<7 - 1
	n := len(s)
	if n < prefixMax {
		dst = append(dst, byte(n))
	} else {
		dst = append(dst, prefixMax)
		for n -= prefixMax; n >= 0x80; n >>= 7 {
			dst = append(dst, byte(n)|0x80)
		}
		dst = append(dst, byte(n))
	}
	return append(dst, s...)
}

// A fieldCheck detects malformed requests and responses (RFC 9113 sections 8.2 and 8.3). It checks
// one field at a time, so the cache of a FieldSet includes the fieldCheck after its fields.
type fieldCheck struct {
	regular       bool // a field other than a pseudo-header field has come
	seen          pseudoFields
	informational bool // the block has a :status of 1xx
	malformed     string
	contentLength int64 // value of content-length plus one; 0 without that field
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
	if !httpguts.ValidHeaderFieldName(f.Name) || strings.ToLower(f.Name) != f.Name {
		return "empty field name, or one with a forbidden character"
	}
	if strings.ContainsAny(f.Value, "\x00\r\n") {
		return "field value with a forbidden character"
	}
	switch f.Name {
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		return "connection-specific field"
	case "te":
		if f.Value != "trailers" {
			return "field te with a value other than trailers"
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

// requestFault returns the reason why a block is not a valid request header, or "".
func (c *fieldCheck) requestFault() string {
	const required = pseudoMethod | pseudoScheme | pseudoPath
	return c.firstFault(c.seen&required == required && c.seen&pseudoStatus == 0, "request without :method, :scheme or :path, or with :status")
}

// responseFault returns the reason why a block is not a valid response header, or "".
func (c *fieldCheck) responseFault() string {
	return c.firstFault(c.seen == pseudoStatus, "response without :status, or with other pseudo-headers")
}

// trailersFault returns the reason why a block is not valid trailers, or "".
func (c *fieldCheck) trailersFault() string {
	return c.firstFault(c.seen == 0, "pseudo-header in trailers")
}

func (c *fieldCheck) firstFault(valid bool, fault string) string {
	if c.malformed != "" || valid {
		return c.malformed
	}
	return fault
}
