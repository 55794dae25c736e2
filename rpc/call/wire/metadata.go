package wire

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/metadata"
)

// AppendMetadata appends a caller's metadata to fields, with binary values in base64.
func AppendMetadata(fields []hpack.HeaderField, md metadata.MD) []hpack.HeaderField {
	for name, values := range md {
		if IsReserved(name) || name == FieldContentType || name == FieldUserAgent {
			continue
		}
		for _, v := range values {
			if strings.HasSuffix(name, BinarySuffix) {
				v = EncodeBinary(v)
			}
			fields = append(fields, hpack.HeaderField{Name: name, Value: v})
		}
	}
	return fields
}

// AddField adds a received field to md, unless the field is reserved, or belongs to HTTP: programs that
// forward the metadata of a request could not send it.
func AddField(md metadata.MD, f hpack.HeaderField) error {
	if IsReserved(f.Name) || isForbidden(f.Name) {
		return nil
	}
	if !strings.HasSuffix(f.Name, BinarySuffix) {
		md[f.Name] = append(md[f.Name], f.Value)
		return nil
	}
	// Several binary values may share a field, separated by commas. A comma costs the peer
	// one byte, but makes this side allocate a string. So the number of values is limited.
	if strings.Count(f.Value, ",") >= maxBinaryValues {
		return fmt.Errorf("field %s has more than %d binary values", f.Name, maxBinaryValues)
	}
	for _, v := range strings.Split(f.Value, ",") {
		data, err := DecodeBinary(v)
		if err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
		md[f.Name] = append(md[f.Name], data)
	}
	return nil
}

// maxBinaryValues bounds the binary values of one field.
const maxBinaryValues = 32

// EncodeBinary encodes the value of a field whose name ends in BinarySuffix.
func EncodeBinary(v string) string { return base64.RawStdEncoding.EncodeToString([]byte(v)) }

// DecodeBinary decodes a value in base64, with or without padding.
func DecodeBinary(v string) (string, error) {
	encoding := base64.RawStdEncoding
	if len(v)%4 == 0 {
		encoding = base64.StdEncoding // padding is allowed, not required
	}
	data, err := encoding.DecodeString(v)
	return string(data), err
}

// CheckMetadata returns an error for keys and values that HTTP/2 header fields cannot carry.
func CheckMetadata(md metadata.MD) error {
	for name, values := range md {
		switch {
		case name == "":
			return errors.New("metadata with an empty key")
		case name[0] == ':':
			continue // a pseudo-header field is dropped, as in grpc-go
		case !IsKey(name):
			return fmt.Errorf("metadata key %q has a forbidden character", name)
		case isForbidden(name):
			return fmt.Errorf("metadata key %q belongs to HTTP: use another key", name)
		case strings.HasSuffix(name, BinarySuffix):
			continue
		}
		for _, v := range values {
			if !IsPrintable(v) {
				return fmt.Errorf("metadata key %q has a value with non-printable characters", name)
			}
		}
	}
	return nil
}

// IsKey reports whether a metadata key has only the characters that gRPC allows.
func IsKey(key string) bool {
	return key != "" && !strings.ContainsFunc(key, func(c rune) bool {
		return !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '.' && c != '-' && c != '_'
	})
}

// IsPrintable reports whether a value has only printable ASCII, as text in metadata must.
func IsPrintable(value string) bool {
	return !strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' })
}
