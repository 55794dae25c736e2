package connectstack

import (
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/grpc/metadata"
)

const binarySuffix = "-bin"

// putMetadata adds metadata to a header. Both protocols write binary values in
// base64.
func putMetadata(header http.Header, md metadata.MD) {
	for key, values := range md {
		for _, value := range values {
			if strings.HasSuffix(key, binarySuffix) {
				value = connect.EncodeBinaryHeader([]byte(value))
			}
			header.Add(key, value)
		}
	}
}

// metadataIn returns the metadata of a header. It drops binary values that are not base64.
func metadataIn(header http.Header) metadata.MD {
	md := make(metadata.MD, len(header))
	for name, values := range header {
		key := strings.ToLower(name)
		if !strings.HasSuffix(key, binarySuffix) {
			md[key] = values
			continue
		}
		for _, value := range values {
			if data, err := connect.DecodeBinaryHeader(value); err == nil {
				md[key] = append(md[key], string(data))
			}
		}
	}
	return md
}
