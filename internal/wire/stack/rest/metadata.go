package rest

import (
	"fmt"
	"net/http"
	"net/textproto"
	"strings"

	"google.golang.org/grpc/metadata"

	"wirelab.dev/rpc/call/wire"
)

// Metadata travels as plain header fields, so that curl -H sends metadata and curl -i
// shows it. Fields that HTTP or this wire uses are not metadata. An answer that is one
// message has its trailer among the headers too, with this prefix: with real HTTP
// trailers it could not have a Content-Length.
const trailerPrefix = "Trailer-"

// timeoutHeader says how long the caller will still wait, as gRPC's header of that name does.
const timeoutHeader = "Grpc-Timeout"

// isReserved reports whether a header field, in canonical form, is not metadata.
func isReserved(field string) bool {
	switch field {
	case "Accept", "Accept-Encoding", "Allow", "Connection", "Content-Encoding", "Content-Length",
		"Content-Type", "Date", "Expect", "Host", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "User-Agent", "X-Content-Type-Options":
		return true
	}
	return strings.HasPrefix(field, "Grpc-") || strings.HasPrefix(field, trailerPrefix)
}

// checkMetadata returns an error for metadata that header fields would change.
func checkMetadata(md metadata.MD) error {
	for key, values := range md {
		if !wire.IsKey(key) {
			return fmt.Errorf("rest: metadata key %q: want lower-case letters, digits, dash, dot, underscore", key)
		}
		if strings.HasSuffix(key, wire.BinarySuffix) {
			continue
		}
		for _, value := range values {
			if !wire.IsPrintable(value) || strings.TrimSpace(value) != value {
				return fmt.Errorf("rest: metadata value %q of %s: want printable ASCII without space around it, or a key that ends in %s", value, key, wire.BinarySuffix)
			}
		}
	}
	return nil
}

// putMetadata adds metadata that checkMetadata has passed to header fields
// whose names begin with prefix. It silently drops reserved keys, as gRPC
// does.
func putMetadata(header http.Header, prefix string, md metadata.MD) {
	for key, values := range md {
		field := textproto.CanonicalMIMEHeaderKey(key)
		if isReserved(field) {
			continue
		}
		name := prefix + field
		for _, value := range values {
			if strings.HasSuffix(key, wire.BinarySuffix) {
				value = wire.EncodeBinary(value)
			}
			header[name] = append(header[name], value)
		}
	}
}

// metadataIn returns the metadata in the header fields whose names begin with prefix,
// or nil if there is none.
func metadataIn(header http.Header, prefix string) metadata.MD {
	var md metadata.MD
	for name, values := range header {
		field, ours := strings.CutPrefix(name, prefix)
		if !ours || isReserved(field) {
			continue
		}
		key := strings.ToLower(field)
		if !wire.IsKey(key) {
			continue
		}
		if strings.HasSuffix(key, wire.BinarySuffix) {
			values = decodeBinary(values)
		}
		if md == nil {
			md = metadata.MD{}
		}
		md[key] = append(md[key], values...)
	}
	return md
}

// decodeBinary decodes binary values, and drops those that are not base64. HTTP lets a
// proxy join repeated fields with commas, which base64 does not use.
func decodeBinary(values []string) []string {
	decoded := make([]string, 0, len(values))
	for _, joined := range values {
		for value := range strings.SplitSeq(joined, ",") {
			if raw, err := wire.DecodeBinary(strings.TrimSpace(value)); err == nil {
				decoded = append(decoded, raw)
			}
		}
	}
	return decoded
}
