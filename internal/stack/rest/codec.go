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

// codec is a form of messages, with the media types that announce it.
type codec struct {
	name    string
	message string
	stream  string
	status  string // of a google.rpc.Status
	most    int64  // bytes of a message, encoded

	encode func(proto.Message) ([]byte, error)
	decode func([]byte, proto.Message) error
}

// The codecs. The media type of protobuf is in wide use and in no registry;
// those of streams are wirelab's own, so that nobody takes a stream for a
// message.
var (
	protobuf = &codec{
		name:    "protobuf",
		message: "application/x-protobuf",
		stream:  "application/x-protobuf-stream",
		status:  `application/x-protobuf; messageType="google.rpc.Status"`,
		most:    stack.MaxMessageBytes,
		encode:  proto.Marshal,
		decode:  proto.Unmarshal,
	}
	json = &codec{
		name:    "json",
		message: "application/json",
		stream:  "application/x-json-stream",
		status:  `application/json; messageType="google.rpc.Status"`,
		most:    stack.MaxMessageBytes / 3 * 4, // what is large is bytes, and these are in base64
		encode:  protojson.Marshal,
		decode:  protojson.Unmarshal,
	}
)

// codecKey is the option that chooses the client's.
const codecKey = "codec"

// codecOf is the codec of a body with this Content-Type; nil where it is none
// of the wanted shape.
func codecOf(contentType string, stream bool) *codec {
	for _, c := range []*codec{protobuf, json} {
		if isMedia(contentType, c.body(stream)) {
			return c
		}
	}
	return nil
}

// body is the media type of a side of a call.
func (c *codec) body(stream bool) string {
	if stream {
		return c.stream
	}
	return c.message
}

// isMedia tells whether a Content-Type header names the wanted media type.
func isMedia(contentType, want string) bool {
	if contentType == want {
		return true // as both ends of wirelab write it
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
	if size := int64(len(encoded)); size > c.most {
		return nil, c.errTooLarge(size)
	}
	return encoded, nil
}

// unmarshal fills the message anew. A failure gets the code: the fault is the
// client's at the server, and the server's at the client.
func (c *codec) unmarshal(encoded []byte, message any, fault codes.Code) error {
	m, ok := message.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "rest: %T is not a protobuf message", message)
	}
	if err := c.decode(encoded, m); err != nil {
		return status.Errorf(fault, "rest: the body is no %s in %s: %v", m.ProtoReflect().Descriptor().FullName(), c.name, err)
	}
	return nil
}
