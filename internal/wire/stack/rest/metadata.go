package rest

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"

	"google.golang.org/grpc/metadata"
)

// Metadata travels as plain header fields, so that curl -H sends metadata and curl -i
// shows it. Fields that HTTP or this wire uses are not metadata. An answer that is one
// message has its trailer among the headers too, with this prefix: with real HTTP
// trailers it could not have a Content-Length.
const trailerPrefix = "Trailer-"

// binarySuffix marks a key whose values are bytes, as in gRPC.
const binarySuffix = "-bin"

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
		if !isKey(key) {
			return fmt.Errorf("rest: metadata key %q: want lower-case letters, digits, dash, dot, underscore", key)
		}
		if strings.HasSuffix(key, binarySuffix) {
			continue
		}
		for _, value := range values {
			if !isText(value) {
				return fmt.Errorf("rest: metadata value %q of %s: want printable ASCII without space around it, or a key that ends in %s", value, key, binarySuffix)
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
			if strings.HasSuffix(key, binarySuffix) {
				value = base64.RawStdEncoding.EncodeToString([]byte(value))
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
		if !isKey(key) {
			continue
		}
		if strings.HasSuffix(key, binarySuffix) {
			values = decodeBinary(values)
		}
		if md == nil {
			md = metadata.MD{}
		}
		md[key] = append(md[key], values...)
	}
	return md
}

// decodeBinary reads base64 with and without padding. HTTP lets a proxy join
// repeated fields with commas, which base64 does not use. It
// drops values that are not base64.
func decodeBinary(values []string) []string {
	decoded := make([]string, 0, len(values))
	for _, joined := range values {
		for value := range strings.SplitSeq(joined, ",") {
			raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(value), "="))
			if err == nil {
				decoded = append(decoded, string(raw))
			}
		}
	}
	return decoded
}

func isKey(key string) bool {
	for _, r := range key {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.' {
			return false
		}
	}
	return key != ""
}

// isText reports whether a header field carries the value unchanged.
func isText(value string) bool {
	for i := range len(value) {
		if value[i] < ' ' || value[i] > '~' {
			return false
		}
	}
	return strings.TrimSpace(value) == value
}
