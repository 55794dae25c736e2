package restjson

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
)

// mediaType is that of all bodies, errors included.
const mediaType = "application/json"

// maxBodyBytes bounds a body that is read. JSON writes bytes in base64, four
// letters for three of them, so that the largest message takes more than it
// weighs; whether the message itself is too large is then seen from itself.
const maxBodyBytes = stack.MaxMessageBytes/3*4 + 64<<10

// codec turns messages into JSON and back.
type codec struct {
	name      string
	marshal   func(proto.Message) ([]byte, error)
	unmarshal func([]byte, proto.Message) error
}

// std treats the generated structs as those of a service that knows no protobuf:
// field names are those of the .proto, numbers are numbers. It has no oneofs and
// none of protobuf's well-known types.
var std = codec{
	name:      "std",
	marshal:   func(m proto.Message) ([]byte, error) { return stdjson.Marshal(m) },
	unmarshal: unmarshalStrictly,
}

// protoJSON is protobuf's own mapping, with the .proto's field names. It writes
// 64-bit integers as text.
var protoJSON = codec{
	name:      "protojson",
	marshal:   protojson.MarshalOptions{UseProtoNames: true}.Marshal,
	unmarshal: protojson.Unmarshal,
}

func unmarshalStrictly(body []byte, m proto.Message) error {
	proto.Reset(m) // encoding/json would add to what there is
	decoder := stdjson.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(m); err != nil {
		return explain(err, m)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("there is more behind the object, from byte %d on", decoder.InputOffset())
	}
	return nil
}

// explain says of encoding/json's errors what a caller can do about them.
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
		return errors.New("it is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it ends in the middle")
	}
	// The standard library has no type for this one.
	if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("there is no field %s; %s", quoted, scenario.Suggest(strings.Trim(quoted, `"`), fieldNames(m)))
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
