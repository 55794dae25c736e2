package wire

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// CodeOfHTTP returns the gRPC code for the HTTP status of a proxy or of a server without gRPC
// (grpc/doc/http-grpc-status-mapping.md).
func CodeOfHTTP(httpStatus int) codes.Code {
	switch httpStatus {
	case http.StatusBadRequest:
		return codes.Internal
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound:
		return codes.Unimplemented
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return codes.Unavailable
	}
	return codes.Unknown
}

const upperHex = "0123456789ABCDEF"

// EncodeStatusMessage percent-encodes all characters but printable ASCII.
func EncodeStatusMessage(s string) string {
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

// DecodeStatusMessage decodes percent-encoding and keeps invalid escapes as they are.
func DecodeStatusMessage(s string) string {
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

// StatusFields returns the trailers that carry st.
func StatusFields(st *status.Status) []hpack.HeaderField {
	fields := []hpack.HeaderField{{Name: FieldStatus, Value: strconv.Itoa(int(st.Code()))}}
	if msg := st.Message(); msg != "" {
		fields = append(fields, hpack.HeaderField{Name: FieldMessage, Value: EncodeStatusMessage(msg)})
	}
	if p := st.Proto(); p != nil && len(p.Details) > 0 {
		if data, err := proto.Marshal(p); err == nil {
			fields = append(fields, hpack.HeaderField{
				Name: FieldDetails, Value: EncodeBinary(string(data)),
			})
		}
	}
	return fields
}

// ParseStatus returns the status in these trailers. message and details may be empty.
func ParseStatus(code, message, details string) (*status.Status, error) {
	n, err := strconv.ParseInt(code, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("malformed grpc-status %q", code)
	}
	if details != "" {
		p := new(spb.Status)
		data, err := DecodeBinary(details)
		if err == nil && proto.Unmarshal([]byte(data), p) == nil && int64(p.Code) == n {
			return status.FromProto(p), nil
		}
	}
	return status.New(codes.Code(uint32(n)), DecodeStatusMessage(message)), nil
}
