package restjson

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/wire/stack"
)

// name is the stack's name.
const name = "rest-json"

// mediaType is the media type of all bodies, also of errors.
const mediaType = "application/json"

// maxBodyBytes is the largest body that is read. JSON has bytes in base64, so that the
// largest message is a larger body. Whether the message itself is too large is checked
// after it was decoded.
const maxBodyBytes = stack.MaxMessageBytes/3*4 + 64<<10

// codec turns messages into JSON and back.
type codec struct {
	name      string
	marshal   func(proto.Message) ([]byte, error)
	unmarshal func([]byte, proto.Message) error
}

// std encodes the generated structs as a service without protobuf would: with the field
// names of the .proto, and with JSON numbers. It supports no oneofs and none of protobuf's
// well-known types.
var std = codec{
	name:      "std",
	marshal:   func(m proto.Message) ([]byte, error) { return stdjson.Marshal(m) },
	unmarshal: unmarshalStrictly,
}

// protoJSON is protobuf's own mapping, with the .proto's field names. It encodes 64-bit
// integers as strings.
var protoJSON = codec{
	name:      "protojson",
	marshal:   protojson.MarshalOptions{UseProtoNames: true}.Marshal,
	unmarshal: protojson.Unmarshal,
}

// encode returns a message as JSON.
func (c codec) encode(message any) ([]byte, error) {
	m, err := stack.ProtoMessage(name, message)
	if err != nil {
		return nil, err
	}
	body, err := c.marshal(m)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "rest-json: encode %T: %v", message, err)
	}
	return body, checkSize(m, body)
}

// decode replaces the content of m. fault is the code of a failure.
func (c codec) decode(body []byte, m proto.Message, fault codes.Code) error {
	if err := c.unmarshal(body, m); err != nil {
		return status.Errorf(fault, "rest-json: cannot decode the body as %s: %v", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return checkSize(m, body)
}

// checkSize applies the limit of all stacks, which is one of encoded protobuf. It
// measures only messages whose JSON is longer.
func checkSize(m proto.Message, body []byte) error {
	if len(body) <= stack.MaxMessageBytes {
		return nil
	}
	if size := proto.Size(m); size > stack.MaxMessageBytes {
		return errTooLarge(int64(size))
	}
	return nil
}

func errTooLarge(sizeBytes int64) error {
	return status.Errorf(codes.ResourceExhausted, "rest-json: a message of %d bytes is larger than the limit of %d", sizeBytes, stack.MaxMessageBytes)
}

// readWhole reads a body that is one message.
func readWhole(w http.ResponseWriter, body io.ReadCloser) ([]byte, error) {
	return stack.ReadBody(w, body, maxBodyBytes, errTooLarge)
}

// isJSON reports whether a Content-Type header names JSON.
func isJSON(contentType string) bool {
	if contentType == mediaType {
		return true // as both ends of wirelab write it
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == mediaType
}

func unmarshalStrictly(body []byte, m proto.Message) error {
	proto.Reset(m) // encoding/json would keep fields that the body does not have
	decoder := stdjson.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(m); err != nil {
		return explain(err, m)
	}
	end := decoder.InputOffset()
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the object ends at byte %d, and more follows", end)
	}
	return nil
}

// explain turns encoding/json's errors into errors that say what to correct.
func explain(err error, m proto.Message) error {
	var syntax *stdjson.SyntaxError
	var mistyped *stdjson.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("byte %d: %w", syntax.Offset, err)
	case errors.As(err, &mistyped) && mistyped.Field == "":
		return fmt.Errorf("want an object, found a JSON %s", mistyped.Value)
	case errors.As(err, &mistyped):
		return fmt.Errorf("%s: want %s, found a JSON %s", mistyped.Field, mistyped.Type, mistyped.Value)
	case errors.Is(err, io.EOF):
		return errors.New("the body is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the body ends in the middle of the object")
	}
	// encoding/json has no type for this error.
	if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("unknown field %s; %s", quoted, spelling.Suggest(strings.Trim(quoted, `"`), fieldNames(m)))
	}
	return err
}

func fieldNames(m proto.Message) []string {
	fields := m.ProtoReflect().Descriptor().Fields()
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = string(fields.Get(i).Name())
	}
	return names
}
