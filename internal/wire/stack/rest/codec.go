package rest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/stack"
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

// The codecs. The media type of protobuf is widely used but not registered. The media types
// of streams are wirelab's own, so that a stream is not mistaken for a message.
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

// unmarshal replaces the message. fault is the code of a failure: it differs between
// the server, where the client sent a bad body, and the client.
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

// readWhole reads a body that is one message.
func (c *codec) readWhole(w http.ResponseWriter, body io.ReadCloser) ([]byte, error) {
	return stack.ReadBody(w, body, c.maxBytes, c.errTooLarge)
}

// A stream is a sequence of frames: the length of a message in four bytes, big
// endian, and the message.
const frameHeaderBytes = 4

// frameOf marshals a message into a frame.
func (c *codec) frameOf(message any) ([]byte, error) {
	encoded, err := c.marshal(message)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, frameHeaderBytes, frameHeaderBytes+len(encoded))
	binary.BigEndian.PutUint32(frame, uint32(len(encoded)))
	return append(frame, encoded...), nil
}

// readFrame returns the next message. It returns io.EOF at the end of the last frame,
// and io.ErrUnexpectedEOF within a frame. It allocates by what arrives, not by the
// announced length.
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
