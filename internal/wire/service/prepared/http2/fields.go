package http2

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// fields is what matters of a header block.
type fields struct {
	status     int // 0: none
	declared   int64
	grpcStatus int // -1: none
	message    string
	grpc       bool // its content-type is one of gRPC
	bad        string
}

const (
	maxFields = 256 << 10 // of a decoded block, as SETTINGS_MAX_HEADER_LIST_SIZE counts
	// fieldCost is what that adds to each field (RFC 9113, section 6.5.2).
	fieldCost = 32
	// Most answers have one of a few blocks.
	cacheSize = 8
	maxCached = 512
)

// decoder decodes header blocks. It remembers those that do not change the dynamic table:
// as long as none does, the same bytes mean the same.
type decoder struct {
	hpack  *hpack.Decoder
	now    fields
	size   int
	cached [cacheSize]cachedBlock
	next   int // the place to use next
}

type cachedBlock struct {
	block  []byte // empty: none
	fields fields
}

var errTooManyFields = fmt.Errorf("a header of more than %d bytes", maxFields)

func newDecoder() *decoder {
	d := &decoder{}
	d.hpack = hpack.NewDecoder(tableSize, d.add)
	d.hpack.SetMaxStringLength(maxFields)
	return d
}

// decode returns what is valid until the next call.
func (d *decoder) decode(block []byte) (*fields, error) {
	for i := range d.cached {
		if c := &d.cached[i]; len(c.block) > 0 && bytes.Equal(c.block, block) {
			return &c.fields, nil
		}
	}
	d.now, d.size = fields{declared: -1, grpcStatus: -1}, 0
	d.hpack.SetEmitEnabled(true)
	_, err := d.hpack.Write(block)
	if err == nil {
		err = d.hpack.Close()
	}
	if err != nil {
		return nil, err
	}
	if d.size > maxFields {
		return nil, errTooManyFields
	}
	d.remember(block)
	return &d.now, nil
}

func (d *decoder) remember(block []byte) {
	if !leavesTable(block) {
		for i := range d.cached {
			d.cached[i].block = d.cached[i].block[:0]
		}
		return
	}
	if len(block) > maxCached {
		return
	}
	c := &d.cached[d.next]
	d.next = (d.next + 1) % cacheSize
	c.block, c.fields = append(c.block[:0], block...), d.now
}

func (d *decoder) add(f hpack.HeaderField) {
	if d.size += len(f.Name) + len(f.Value) + fieldCost; d.size > maxFields {
		d.hpack.SetEmitEnabled(false)
		return
	}
	switch f.Name {
	case ":status":
		status, err := strconv.Atoi(f.Value)
		if err != nil || len(f.Value) != 3 || status < 100 || d.now.status != 0 {
			d.now.bad = fmt.Sprintf("the status %.20q", f.Value)
			return
		}
		d.now.status = status
	case "content-length":
		n, err := strconv.ParseUint(f.Value, 10, 63)
		if err != nil {
			d.now.bad = fmt.Sprintf("the content-length %.20q", f.Value)
			return
		}
		d.now.declared = int64(n)
	case "content-type":
		rest, is := strings.CutPrefix(f.Value, "application/grpc")
		d.now.grpc = is && (rest == "" || rest[0] == '+' || rest[0] == ';')
	case "grpc-status":
		code, err := strconv.ParseUint(f.Value, 10, 31)
		if err != nil {
			d.now.bad = fmt.Sprintf("the grpc-status %.20q", f.Value)
			return
		}
		d.now.grpcStatus = int(code)
	case "grpc-message":
		d.now.message = f.Value
		if decoded, err := url.PathUnescape(f.Value); err == nil {
			d.now.message = decoded
		}
	}
}

var errShort = errors.New("the block ends within a field")

// leavesTable reports whether a block that was decoded without an error leaves the dynamic
// table as it was: all its fields are indexed, or literals that are not to be indexed
// (RFC 7541, section 6).
func leavesTable(block []byte) bool {
	for len(block) > 0 {
		const (
			indexed = 0x80
			changes = 0x60 // literals with indexing, sizes of the table
		)
		var err error
		switch first := block[0]; {
		case first&indexed != 0:
			_, block, err = readInteger(block, 7)
		case first&changes != 0:
			return false
		default:
			var name uint64
			name, block, err = readInteger(block, 4)
			if err == nil && name == 0 {
				block, err = skipString(block)
			}
			if err == nil {
				block, err = skipString(block)
			}
		}
		if err != nil {
			return false
		}
	}
	return true
}

func skipString(p []byte) ([]byte, error) {
	if len(p) == 0 {
		return nil, errShort
	}
	n, p, err := readInteger(p, 7)
	if err != nil || n > uint64(len(p)) {
		return nil, errShort
	}
	return p[n:], nil
}

// readInteger reads an integer with a prefix of so many bits (RFC 7541, section 5.1).
func readInteger(p []byte, bits uint) (uint64, []byte, error) {
	most := uint64(1)<<bits - 1
	n := uint64(p[0]) & most
	p = p[1:]
	if n < most {
		return n, p, nil
	}
	for shift := 0; shift < 63 && len(p) > 0; shift += 7 {
		b := p[0]
		p = p[1:]
		if n += uint64(b&0x7f) << shift; b&0x80 == 0 {
			return n, p, nil
		}
	}
	return 0, nil, errShort
}
