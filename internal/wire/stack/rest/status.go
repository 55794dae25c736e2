package rest

import (
	"encoding/base64"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/stack"
)

// The HTTP trailers at the end of a stream: the code as a number and, unless it is OK,
// the whole status.
const (
	codeTrailer   = "Grpc-Status"
	statusTrailer = "Grpc-Status-Details-Bin"
)

// encodeStatus never fails. A codec refuses text that is not UTF-8 and, in JSON,
// details of a type that this program does not know; the result is then without them.
func (c *codec) encodeStatus(st *status.Status) []byte {
	encoded, err := c.encode(st.Proto())
	if err != nil {
		encoded, _ = c.encode(&spb.Status{Code: int32(st.Code()), Message: strings.ToValidUTF8(st.Message(), "\uFFFD")})
	}
	return encoded
}

// errorIn returns the error of an answer with a status other than 200.
func errorIn(response *http.Response, body []byte) error {
	contentType := response.Header.Get("Content-Type")
	media, parameters, err := mime.ParseMediaType(contentType)
	if codec := codecOf(media, false); err == nil && codec != nil && parameters["messagetype"] == "google.rpc.Status" {
		var st spb.Status
		if err := codec.decode(body, &st); err == nil && st.Code != int32(codes.OK) {
			return status.ErrorProto(&st)
		}
	}
	return status.Errorf(stack.CodeOfHTTP(response.StatusCode), "rest: the server answered %s%s", response.Status, excerpt(contentType, body))
}

// excerpt returns the beginning of a body of text or of unknown type.
func excerpt(contentType string, body []byte) string {
	const enough = 200
	if contentType != "" && !strings.HasPrefix(contentType, "text/") || len(body) == 0 {
		return ""
	}
	return fmt.Sprintf(": %.*q", enough, strings.TrimSpace(string(body)))
}

// putStatus writes a stream's status to its trailers.
func putStatus(header http.Header, st *status.Status) {
	header.Set(http.TrailerPrefix+codeTrailer, strconv.Itoa(int(st.Code())))
	if st.Code() == codes.OK {
		return
	}
	// Go's client reads trailers through a buffer of 4 KiB and fails beyond.
	const maxBytes = 2 << 10
	encoded := protobuf.encodeStatus(st)
	if len(encoded) > maxBytes {
		const letters = maxBytes / 8 // of at most four bytes each
		encoded = protobuf.encodeStatus(status.Newf(st.Code(), "%.*s (the rest of this status does not fit into an HTTP trailer)", letters, st.Message()))
	}
	header.Set(http.TrailerPrefix+statusTrailer, base64.RawStdEncoding.EncodeToString(encoded))
}

// statusIn reads a stream's status from its trailers.
func statusIn(trailer http.Header) *status.Status {
	text := trailer.Get(codeTrailer)
	code, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return status.Newf(codes.Unavailable, "rest: the stream ended without a status (%s: %q)", codeTrailer, text)
	}
	if encoded, err := base64.RawStdEncoding.DecodeString(trailer.Get(statusTrailer)); err == nil && len(encoded) > 0 {
		var st spb.Status
		if err := proto.Unmarshal(encoded, &st); err == nil && st.Code == int32(code) {
			return status.FromProto(&st)
		}
	}
	return status.New(codes.Code(code), "")
}
