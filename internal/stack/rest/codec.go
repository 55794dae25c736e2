package rest

import (
	"mime"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/stack"
)

// codec is an encoding of messages, with its media types.
type codec struct {
	name     string
	message  string
	stream   string
	status   string // of a google.rpc.Status
	maxBytes int64  // bytes of a message, encoded

	encode func(proto.Message) ([]byte, error)
	decode func([]byte, proto.Message) error
}

// The codecs. The media type of protobuf is widely used but not registered. Those of
// streams are wirelab's own, so that a stream is not mistaken for a message.
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
		maxBytes: stack.MaxMessageBytes / 3 * 4, // large messages are mostly bytes, in base64
		encode:   protojson.Marshal,
		decode:   protojson.Unmarshal,
	}
)

// codecKey is the option for the client's codec.
const codecKey = "codec"

// codecOf returns the codec of a body with this Content-Type, or nil for another type
// or the wrong one of message and stream.
func codecOf(contentType string, stream bool) *codec {
	for _, c := range []*codec{protobuf, json} {
		if isMedia(contentType, c.body(stream)) {
			return c
		}
	}
	return nil
}

// body returns the media type of a message or of a stream.
func (c *codec) body(stream bool) string {
	if stream {
		return c.stream
	}
	return c.message
}

// isMedia reports whether a Content-Type header names the wanted media type.
func isMedia(contentType, want string) bool {
	if contentType == want {
		return true // exactly as wirelab's own ends write it
	}
	if !strings.HasPrefix(contentType, "application/") {
		return false
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == want || want == protobuf.message && media == "application/protobuf")
}

func (c *codec) marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "rest: %T is not a protobuf message", message)
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

// unmarshal replaces the message. fault is the code of a failure: it differs between
// the server, where the client sent a bad body, and the client.
func (c *codec) unmarshal(encoded []byte, message any, fault codes.Code) error {
	m, ok := message.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "rest: %T is not a protobuf message", message)
	}
	if err := c.decode(encoded, m); err != nil {
		return status.Errorf(fault, "rest: cannot decode the body as %s in %s: %v", m.ProtoReflect().Descriptor().FullName(), c.name, err)
	}
	return nil
}
