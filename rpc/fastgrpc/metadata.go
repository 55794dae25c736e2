package fastgrpc

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Names of the header fields of gRPC over HTTP/2.
const (
	fieldStatus         = "grpc-status"
	fieldMessage        = "grpc-message"
	fieldDetails        = "grpc-status-details-bin"
	fieldTimeout        = "grpc-timeout"
	fieldAttempts       = "grpc-previous-rpc-attempts"
	fieldPushback       = "grpc-retry-pushback-ms"
	fieldLoad           = "endpoint-load-metrics-bin"
	fieldEncoding       = "grpc-encoding"
	fieldAcceptEncoding = "grpc-accept-encoding"
	fieldContentType    = "content-type"
	fieldUserAgent      = "user-agent"
	contentTypePrefix   = "application/grpc"
	binarySuffix        = "-bin"
)

// isReserved reports whether a field belongs to the protocol and never to metadata.
func isReserved(name string) bool {
	switch name {
	case fieldStatus, fieldMessage, fieldDetails, fieldTimeout, fieldEncoding,
		"te", "grpc-message-type", "content-length":
		return true
	}
	return name == "" || name[0] == ':'
}

// appendMetadata appends a caller's metadata to fields, with binary values in base64.
func appendMetadata(fields []hpack.HeaderField, md metadata.MD) []hpack.HeaderField {
	for name, values := range md {
		if isReserved(name) || name == fieldContentType || name == fieldUserAgent {
			continue
		}
		for _, v := range values {
			if strings.HasSuffix(name, binarySuffix) {
				v = base64.RawStdEncoding.EncodeToString([]byte(v))
			}
			fields = append(fields, hpack.HeaderField{Name: name, Value: v})
		}
	}
	return fields
}

// addField adds a received field to md, unless it is reserved.
func addField(md metadata.MD, f hpack.HeaderField) error {
	if isReserved(f.Name) {
		return nil
	}
	if !strings.HasSuffix(f.Name, binarySuffix) {
		md[f.Name] = append(md[f.Name], f.Value)
		return nil
	}
	// Several binary values may share a field, separated by commas. A comma costs the peer
	// a byte and this end a string.
	if strings.Count(f.Value, ",") >= maxJoined {
		return fmt.Errorf("field %s has more than %d binary values", f.Name, maxJoined)
	}
	for _, v := range strings.Split(f.Value, ",") {
		data, err := decodeBinary(v)
		if err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
		md[f.Name] = append(md[f.Name], data)
	}
	return nil
}

// maxJoined bounds the binary values of one field.
const maxJoined = 32

func decodeBinary(v string) (string, error) {
	encoding := base64.RawStdEncoding
	if len(v)%4 == 0 {
		encoding = base64.StdEncoding // padding is allowed, not required
	}
	data, err := encoding.DecodeString(v)
	return string(data), err
}

// validateMetadata returns an error for keys and values that HTTP/2 header fields cannot
// carry.
func validateMetadata(md metadata.MD) error {
	for name, values := range md {
		if name == "" {
			return fmt.Errorf("metadata with an empty key")
		}
		if name[0] == ':' {
			continue // dropped, as grpc-go does
		}
		for i := range len(name) {
			if c := name[i]; !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '.' && c != '-' && c != '_' {
				return fmt.Errorf("metadata key %q has a forbidden character", name)
			}
		}
		if strings.HasSuffix(name, binarySuffix) {
			continue
		}
		for _, v := range values {
			for i := range len(v) {
				if v[i] < 0x20 || v[i] > 0x7e {
					return fmt.Errorf("metadata key %q has a value with non-printable characters", name)
				}
			}
		}
	}
	return nil
}

// timeoutUnits are the units of grpc-timeout, finest first.
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

// maxTimeoutValue has the eight digits that the specification allows.
const maxTimeoutValue = 99999999

// encodeTimeout formats d in the finest unit that fits, rounded up.
func encodeTimeout(d time.Duration) string {
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

func decodeTimeout(s string) (time.Duration, error) {
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

const upperHex = "0123456789ABCDEF"

// encodeStatusMessage percent-encodes all but printable ASCII.
func encodeStatusMessage(s string) string {
	plain := func(c byte) bool { return c >= ' ' && c <= '~' && c != '%' }
	i := 0
	for i < len(s) && plain(s[i]) {
		i++
	}
	if i == len(s) {
		return s
	}
	out := []byte(s[:i])
	for _, c := range []byte(strings.ToValidUTF8(s[i:], "\uFFFD")) {
		if plain(c) {
			out = append(out, c)
		} else {
			out = append(out, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return string(out)
}

// decodeStatusMessage decodes percent-encoding and keeps invalid escapes as they are.
func decodeStatusMessage(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				out = append(out, byte(v))
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}

// statusFields returns the trailers that carry st.
func statusFields(st *status.Status) []hpack.HeaderField {
	fields := []hpack.HeaderField{{Name: fieldStatus, Value: strconv.Itoa(int(st.Code()))}}
	if msg := st.Message(); msg != "" {
		fields = append(fields, hpack.HeaderField{Name: fieldMessage, Value: encodeStatusMessage(msg)})
	}
	if p := st.Proto(); p != nil && len(p.Details) > 0 {
		if data, err := proto.Marshal(p); err == nil {
			fields = append(fields, hpack.HeaderField{
				Name: fieldDetails, Value: base64.RawStdEncoding.EncodeToString(data),
			})
		}
	}
	return fields
}

// parseStatus returns the status in the trailers. message and details may be "".
func parseStatus(code, message, details string) *status.Status {
	n, err := strconv.ParseInt(code, 10, 32)
	if err != nil {
		return status.Newf(codes.Unknown, "fastgrpc: malformed grpc-status %q", code)
	}
	if details != "" {
		p := new(spb.Status)
		data, err := decodeBinary(details)
		if err == nil && proto.Unmarshal([]byte(data), p) == nil && int64(p.Code) == n {
			return status.FromProto(p)
		}
	}
	return status.New(codes.Code(uint32(n)), decodeStatusMessage(message))
}
