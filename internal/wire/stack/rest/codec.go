package rest

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/rpc/call/wire"
)

type codec struct {
	name     string
	message  string
	stream   string
	status   string // media type of errors, which are google.rpc.Status messages
	maxBytes int64  // limit of an encoded message

	encode func(proto.Message) ([]byte, error)
	decode func([]byte, proto.Message) error
}

// These are the codecs. Protobuf's media type is common but not registered. Streams have media
// types of wirelab's own, so that no program takes a stream for a single message.
var (
	protobuf = &codec{
		name:     "protobuf",
		message:  "application/x-protobuf",
		stream:   "application/x-protobuf-stream",
		status:   `application/x-protobuf; messageType="google.rpc.Status"`,
		maxBytes: stack.MaxMessageBytes,
		encode:   proto.Marshal,
		decode:   proto.Unmarshal,
	}
	json = &codec{
		name:     "json",
		message:  "application/json",
		stream:   "application/x-json-stream",
		status:   `application/json; messageType="google.rpc.Status"`,
		maxBytes: stack.MaxMessageBytes / 3 * 4, // base64 makes bytes longer by a third
		encode:   protojson.Marshal,
		decode:   protojson.Unmarshal,
	}
)

// codecOf returns the codec for a Content-Type, or nil. stream says whether the body is a stream.
func codecOf(contentType string, stream bool) *codec {
	for _, c := range []*codec{protobuf, json} {
		if isMedia(contentType, c.mediaType(stream)) {
			return c
		}
	}
	return nil
}

func (c *codec) mediaType(stream bool) string {
	if stream {
		return c.stream
	}
	return c.message
}

func isMedia(contentType, want string) bool {
	return stack.IsMedia(contentType, want) || want == protobuf.message && stack.IsMedia(contentType, "application/protobuf")
}

func (c *codec) marshal(message any) ([]byte, error) {
	m, err := stack.ProtoMessage("rest", message)
	if err != nil {
		return nil, err
	}
	encoded, err := c.encode(m)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "rest: marshal %T: %v", message, err)
	}
	if size := int64(len(encoded)); size > c.maxBytes {
		return nil, c.errTooLarge(size)
	}
	return encoded, nil
}

// unmarshal replaces the message's content. fault is the error code of a failure, which differs
// between client and server.
func (c *codec) unmarshal(encoded []byte, message any, fault codes.Code) error {
	m, err := stack.ProtoMessage("rest", message)
	if err != nil {
		return err
	}
	if err := c.decode(encoded, m); err != nil {
		return status.Errorf(fault, "rest: cannot decode the body as %s in %s: %v", m.ProtoReflect().Descriptor().FullName(), c.name, err)
	}
	return nil
}

func (c *codec) errTooLarge(sizeBytes int64) error {
	return status.Errorf(codes.ResourceExhausted, "rest: a message of %d bytes is larger than the limit of %d", sizeBytes, c.maxBytes)
}

func (c *codec) readWhole(w http.ResponseWriter, body io.ReadCloser) ([]byte, error) {
	return stack.ReadBody(w, body, c.maxBytes, c.errTooLarge)
}

// A stream consists of frames. A frame is the message's length in four bytes, big endian, and the
// message.
const frameHeaderBytes = 4

func (c *codec) frameOf(message any) ([]byte, error) {
	encoded, err := c.marshal(message)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, frameHeaderBytes, frameHeaderBytes+len(encoded))
	binary.BigEndian.PutUint32(frame, uint32(len(encoded)))
	return append(frame, encoded...), nil
}

// readFrame returns the next message. It returns io.EOF after the last frame, and
// io.ErrUnexpectedEOF inside a frame. It allocates memory only for bytes that arrive.
func (c *codec) readFrame(r io.Reader) ([]byte, error) {
	var header [frameHeaderBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	length := int64(binary.BigEndian.Uint32(header[:]))
	if length > c.maxBytes {
		return nil, c.errTooLarge(length)
	}
	var message bytes.Buffer
	if _, err := io.CopyN(&message, r, length); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return message.Bytes(), nil
}

// A stream ends with these HTTP trailers: the code and, unless the code is OK, the whole status.
const (
	codeTrailer   = "Grpc-Status"
	statusTrailer = "Grpc-Status-Details-Bin"
)

// encodeStatus encodes a status and never fails. If a text is not UTF-8 or a detail's type is
// unknown, it replaces the invalid text and leaves out the details.
func (c *codec) encodeStatus(st *status.Status) []byte {
	encoded, err := c.encode(st.Proto())
	if err != nil {
		encoded, _ = c.encode(&spb.Status{Code: int32(st.Code()), Message: strings.ToValidUTF8(st.Message(), "\uFFFD")})
	}
	return encoded
}

func errorFromAnswer(response *http.Response, body []byte) error {
	contentType := response.Header.Get("Content-Type")
	media, parameters, err := mime.ParseMediaType(contentType)
	if codec := codecOf(media, false); err == nil && codec != nil && parameters["messagetype"] == "google.rpc.Status" {
		var st spb.Status
		if err := codec.decode(body, &st); err == nil && st.Code != int32(codes.OK) {
			return status.ErrorProto(&st)
		}
	}
	return status.Errorf(stack.CodeOfHTTP(response.StatusCode), "rest: the server answered %s%s", response.Status, bodyExcerpt(contentType, body))
}

func bodyExcerpt(contentType string, body []byte) string {
	const enough = 200
	if contentType != "" && !strings.HasPrefix(contentType, "text/") || len(body) == 0 {
		return ""
	}
	return fmt.Sprintf(": %.*q", enough, strings.TrimSpace(string(body)))
}

func putStatus(header http.Header, st *status.Status) {
	header.Set(http.TrailerPrefix+codeTrailer, strconv.Itoa(int(st.Code())))
	if st.Code() == codes.OK {
		return
	}
	// Go's client reads trailers into a buffer of 4 KiB, and fails if they are longer.
	const maxBytes = 2 << 10
	encoded := protobuf.encodeStatus(st)
	if len(encoded) > maxBytes {
		const letters = maxBytes / 8 // a letter has at most four bytes
		encoded = protobuf.encodeStatus(status.Newf(st.Code(), "%.*s (the rest of this status does not fit into an HTTP trailer)", letters, st.Message()))
	}
	header.Set(http.TrailerPrefix+statusTrailer, base64.RawStdEncoding.EncodeToString(encoded))
}

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

// Metadata becomes plain header fields, for curl -H and curl -i. If the answer is one message, its
// trailer metadata is in the header too, with this prefix. With HTTP trailers, the answer could
// have no Content-Length.
const trailerPrefix = "Trailer-"

// timeoutHeader holds the time until the caller's deadline, like gRPC's header of the same name.
const timeoutHeader = "Grpc-Timeout"

// isReserved reports whether a header field is not metadata. The name must be canonical.
func isReserved(field string) bool {
	switch field {
	case "Accept", "Accept-Encoding", "Allow", "Connection", "Content-Encoding", "Content-Length",
		"Content-Type", "Date", "Expect", "Host", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "User-Agent", "X-Content-Type-Options":
		return true
	}
	return strings.HasPrefix(field, "Grpc-") || strings.HasPrefix(field, trailerPrefix)
}

// checkMetadata returns an error for metadata that would not arrive unchanged in header fields.
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

var errBidi = fmt.Errorf("rest: HTTP/1.1 programs answer after the request, not during it, so they have no bidirectional streams; h2, h3, tcp and grpc have them: %w", stack.ErrUnsupported)
