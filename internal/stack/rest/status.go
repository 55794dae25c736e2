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

	"wirelab.dev/internal/stack"
)

// The end of a stream, in HTTP trailers: the code as a number, and the whole
// status where it is not OK.
const (
	codeTrailer   = "Grpc-Status"
	statusTrailer = "Grpc-Status-Details-Bin"
)

// encodeStatus never fails: what a codec refuses is text that is not UTF-8, or,
// for JSON, details of a type that this program does not know.
func (c *codec) encodeStatus(st *status.Status) []byte {
	encoded, err := c.encode(st.Proto())
	if err != nil {
		encoded, _ = c.encode(&spb.Status{Code: int32(st.Code()), Message: strings.ToValidUTF8(st.Message(), "\uFFFD")})
	}
	return encoded
}

// errorIn is the error that an answer other than 200 stands for.
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

// excerpt is the beginning of a body that is text, or does not say what it is.
func excerpt(contentType string, body []byte) string {
	const enough = 200
	if contentType != "" && !strings.HasPrefix(contentType, "text/") || len(body) == 0 {
		return ""
	}
	return fmt.Sprintf(": %.*q", enough, strings.TrimSpace(string(body)))
}

// putStatus writes the end of a stream into its trailers.
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

// statusIn reads the end of a stream from its trailers.
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
