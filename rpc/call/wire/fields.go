package wire

import "strings"

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

// IsReserved reports whether a field belongs to the protocol and never to metadata.
func IsReserved(name string) bool {
	switch name {
	case FieldStatus, FieldMessage, FieldDetails, FieldTimeout, FieldEncoding,
		"te", "grpc-message-type", "content-length":
		return true
	}
	return name == "" || name[0] == ':'
}

// ContentSubtype returns "proto" for "application/grpc+proto;x=y". It reports false if the
// content-type is not gRPC's.
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
