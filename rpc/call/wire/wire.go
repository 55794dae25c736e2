// Package wire holds the details of gRPC over HTTP/2 that do not depend on a connection: the
// names of header fields, metadata as header fields, timeouts, statuses as trailers, HTTP
// statuses as codes, and the prefix of messages.
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
//
// This package must know neither streams nor the library that calls it: its errors name no library.
package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Names of the header fields of gRPC over HTTP/2.
const (
	FieldStatus         = "grpc-status"
	FieldMessage        = "grpc-message"
	FieldDetails        = "grpc-status-details-bin"
	FieldTimeout        = "grpc-timeout"
	FieldAttempts       = "grpc-previous-rpc-attempts"
	FieldPushback       = "grpc-retry-pushback-ms"
	FieldLoad           = "endpoint-load-metrics-bin"
	FieldEncoding       = "grpc-encoding"
	FieldAcceptEncoding = "grpc-accept-encoding"
	FieldContentType    = "content-type"
	FieldUserAgent      = "user-agent"
	ContentType         = "application/grpc"
	BinarySuffix        = "-bin"
)

// IsReserved reports whether a field belongs to the protocol and never to metadata. As in grpc-go,
// FieldDetails is in the trailer, so that proxies forward it.
func IsReserved(name string) bool {
	switch name {
	case FieldStatus, FieldMessage, FieldTimeout, FieldEncoding, "te", "grpc-message-type":
		return true
	}
	return name == "" || name[0] == ':'
}

// isForbidden reports whether a field of this name makes a message of HTTP/2 malformed (RFC 9113
// section 8.2.2), or may do so.
func isForbidden(name string) bool {
	switch name {
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "content-length":
		return true
	}
	return false
}

// ContentSubtype returns "proto" for "application/grpc+proto;x=y". It returns false if the content
// type is not gRPC's.
func ContentSubtype(contentType string) (string, bool) {
	rest, ok := strings.CutPrefix(contentType, ContentType)
	if !ok || rest == "" {
		return "", ok
	}
	switch rest[0] {
	case '+', ';':
		subtype, _, _ := strings.Cut(rest[1:], ";")
		if rest[0] == ';' {
			subtype = ""
		}
		return strings.ToLower(subtype), true
	}
	return "", false
}

// PrefixLen is the length of a message's prefix. The prefix is a flag of one byte, which says
// whether the message is compressed, and the message's length in four bytes.
const PrefixLen = 5

// PutPrefix fills in the prefix at the start of b, which holds one message.
func PutPrefix(b []byte, compressed bool) {
	b[0] = 0
	if compressed {
		b[0] = 1
	}
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-PrefixLen))
}

// ParsePrefix returns the fields of the prefix at the start of b.
func ParsePrefix(b []byte) (flags byte, length uint32) {
	return b[0], binary.BigEndian.Uint32(b[1:PrefixLen])
}

// AppendMessage appends a message that is not compressed, with its prefix.
func AppendMessage(to, message []byte) []byte {
	to = binary.BigEndian.AppendUint32(append(to, 0), uint32(len(message)))
	return append(to, message...)
}

// ReadPrefix reads a prefix. The error is io.EOF only if no byte comes.
func ReadPrefix(from io.Reader) (flags byte, length uint32, err error) {
	var prefix [PrefixLen]byte
	if _, err := io.ReadFull(from, prefix[:]); err != nil {
		return 0, 0, err
	}
	flags, length = ParsePrefix(prefix[:])
	return flags, length, nil
}

// timeoutUnits are the units of grpc-timeout, the smallest first.
var timeoutUnits = [...]struct {
	unit   time.Duration
	letter byte
}{
	{time.Nanosecond, 'n'},
	{time.Microsecond, 'u'},
	{time.Millisecond, 'm'},
	{time.Second, 'S'},
	{time.Minute, 'M'},
	{time.Hour, 'H'},
}

// maxTimeoutValue is the largest number of eight digits, the most that the specification allows.
const maxTimeoutValue = 99999999

// EncodeTimeout formats d, rounded up, in the smallest unit with at most eight digits.
func EncodeTimeout(d time.Duration) string {
	if d <= 0 {
		return "0n"
	}
	var digits [10]byte
	for _, u := range timeoutUnits {
		v := d / u.unit
		if d%u.unit > 0 {
			v++
		}
		if v <= maxTimeoutValue {
			return string(append(strconv.AppendInt(digits[:0], int64(v), 10), u.letter))
		}
	}
	return "99999999H"
}

// DecodeTimeout parses the value of grpc-timeout. It returns at most the longest Duration.
func DecodeTimeout(s string) (time.Duration, error) {
	if len(s) < 2 || len(s) > 9 {
		return 0, fmt.Errorf("grpc-timeout %q: want 1 to 8 digits and a unit", s)
	}
	v, err := strconv.ParseUint(s[:len(s)-1], 10, 63)
	if err != nil {
		return 0, fmt.Errorf("grpc-timeout %q is not a number and a unit", s)
	}
	for _, u := range timeoutUnits {
		if u.letter != s[len(s)-1] {
			continue
		}
		if v > uint64(1<<63-1)/uint64(u.unit) {
			return 1<<63 - 1, nil
		}
		return time.Duration(v) * u.unit, nil
	}
	return 0, fmt.Errorf("grpc-timeout %q: unknown unit, want one of H, M, S, m, u, n", s)
}
