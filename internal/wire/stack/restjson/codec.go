package restjson

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/code"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/wire/route"
	"wirelab.dev/internal/wire/stack"
)

const name = "rest-json"

// mediaType is the media type of all bodies, also of errors.
const mediaType = "application/json"

// maxBodyBytes limits a received body. The body is larger than the message, because bytes are in
// base64 in JSON. The message limit is checked after decoding.
const maxBodyBytes = stack.MaxMessageBytes/3*4 + 64<<10

type codec struct {
	name      string
	marshal   func(proto.Message) ([]byte, error)
	unmarshal func([]byte, proto.Message) error
}

// stdCodec encodes the generated structs as a service without protobuf would: with field names from
// the .proto file and JSON numbers. It supports no oneofs and no well-known types of protobuf.
var stdCodec = codec{
	name:      "std",
	marshal:   func(m proto.Message) ([]byte, error) { return stdjson.Marshal(m) },
	unmarshal: unmarshalStrictly,
}

// protoJSON uses protobuf's JSON mapping, with names from the .proto file. 64-bit integers become
// strings.
var protoJSON = codec{
	name:      "protojson",
	marshal:   protojson.MarshalOptions{UseProtoNames: true}.Marshal,
	unmarshal: protojson.Unmarshal,
}

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

// decode replaces the content of m. fault is the error code of a failure.
func (c codec) decode(body []byte, m proto.Message, fault codes.Code) error {
	if err := c.unmarshal(body, m); err != nil {
		return status.Errorf(fault, "rest-json: cannot decode the body as %s: %v", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return checkSize(m, body)
}

// checkSize applies the common message limit, which is a size in protobuf. JSON is longer, so
// checkSize computes the size in protobuf only for long bodies.
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

func readWhole(w http.ResponseWriter, body io.ReadCloser) ([]byte, error) {
	return stack.ReadBody(w, body, maxBodyBytes, errTooLarge)
}

func unmarshalStrictly(body []byte, m proto.Message) error {
	proto.Reset(m) // encoding/json keeps the old values of fields that are not in the body
	decoder := stdjson.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(m); err != nil {
		return explainJSONError(err, m)
	}
	end := decoder.InputOffset()
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("want one JSON object, but found more data after the object's end at byte %d", end)
	}
	return nil
}

// explainJSONError converts encoding/json's errors into errors that say what to correct.
func explainJSONError(err error, m proto.Message) error {
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
	// encoding/json has no error type for unknown fields.
	if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("unknown field %s; %s", quoted, spelling.Suggest(strings.Trim(quoted, `"`), fieldNames(m, func(protoreflect.FieldDescriptor) bool { return false })))
	}
	return err
}

// fieldNames returns the names of all fields, except those for which skip returns true.
func fieldNames(m proto.Message, skip func(protoreflect.FieldDescriptor) bool) (names []string) {
	fields := m.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if !skip(fields.Get(i)) {
			names = append(names, string(fields.Get(i).Name()))
		}
	}
	return names
}

func urlOf(r route.Route, request proto.Message) (string, error) {
	message := request.ProtoReflect()
	var path []byte
	for _, segment := range r.Path {
		path = append(path, '/')
		if segment.In == nil {
			path = append(path, segment.Text...)
			continue
		}
		text := message.Get(segment.In).String()
		if text == "" {
			return "", fmt.Errorf("field %s is empty, but the path needs its value", segment.In.Name())
		}
		path = append(path, escapeSegment(text)...)
	}
	if r.InBody {
		return string(path), nil
	}
	query := url.Values{}
	var err error
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case r.HasInPath(field):
		case field.Cardinality() == protoreflect.Repeated || field.Message() != nil || field.Kind() == protoreflect.BytesKind:
			err = fmt.Errorf("%s cannot be sent in a query: want a single number, text or boolean", field.FullName())
		default:
			query.Set(string(field.Name()), value.String())
		}
		return err == nil
	})
	if len(query) == 0 {
		return string(path), err
	}
	return string(path) + "?" + query.Encode(), err
}

// escapeSegment escapes a path segment. It also escapes "." and "..", which HTTP programs would
// resolve.
func escapeSegment(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

func fillRequest(r route.Route, request proto.Message, inPath func(string) string, query url.Values) error {
	message := request.ProtoReflect()
	for _, segment := range r.Path {
		if segment.In != nil {
			message.Set(segment.In, protoreflect.ValueOfString(inPath(string(segment.In.Name()))))
		}
	}
	if r.InBody {
		return nil
	}
	fields := message.Descriptor().Fields()
	for name, values := range query {
		field := fields.ByName(protoreflect.Name(name))
		if field == nil || r.HasInPath(field) {
			return fmt.Errorf("query: unknown field %q; %s", name, spelling.Suggest(name, fieldNames(request, r.HasInPath)))
		}
		value, err := parseField(field, values)
		if err != nil {
			return fmt.Errorf("query: %s: %w", name, err)
		}
		message.Set(field, value)
	}
	return nil
}

func parseField(field protoreflect.FieldDescriptor, values []string) (protoreflect.Value, error) {
	if len(values) != 1 || field.Cardinality() == protoreflect.Repeated {
		return protoreflect.Value{}, fmt.Errorf("the field has %d values: want one", len(values))
	}
	text := values[0]
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text), nil
	case protoreflect.BoolKind:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return protoreflect.Value{}, fmt.Errorf("want true or false, not %.40q", text)
		}
		return protoreflect.ValueOfBool(b), nil
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		n, err := parseInt(text, 32)
		return protoreflect.ValueOfInt32(int32(n)), err
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		n, err := parseInt(text, 64)
		return protoreflect.ValueOfInt64(n), err
	default:
		return protoreflect.Value{}, fmt.Errorf("a field of type %s cannot be set in a query", field.Kind())
	}
}

func parseInt(text string, bits int) (int64, error) {
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("want a whole number, not %.40q", text)
	}
	return n, nil
}

// httpStatusOf returns the HTTP status for a handler's error. A well-formed request that breaks a
// rule gets 422, or 409 if the rule concerns stored data (RFC 9110, 15.5.1, 15.5.10 and 15.5.21).
func httpStatusOf(c codes.Code) int {
	switch c {
	case codes.InvalidArgument, codes.OutOfRange:
		return http.StatusUnprocessableEntity
	case codes.FailedPrecondition:
		return http.StatusConflict
	default:
		return stack.HTTPStatus(c)
	}
}

type problem struct {
	// Code is a name of google.rpc.Code, as in NOT_FOUND.
	Code    string `json:"code"`
	Message string `json:"message"`
	// Details are messages in protobuf's JSON, each with its @type.
	Details []stdjson.RawMessage `json:"details,omitempty"`
}

// problemOf returns the JSON body for a status. It leaves out details of unknown types.
func problemOf(st *status.Status) problem {
	p := problem{Code: code.Code(st.Code()).String(), Message: st.Message()}
	for _, detail := range st.Proto().GetDetails() {
		if encoded, err := protojson.Marshal(detail); err == nil {
			p.Details = append(p.Details, encoded)
		}
	}
	return p
}

// status returns the status from which the problem was made, or false if there was none.
func (p problem) status() (*status.Status, bool) {
	number, known := code.Code_value[p.Code]
	if !known || number == int32(codes.OK) {
		return nil, false
	}
	st := &spb.Status{Code: number, Message: p.Message}
	for _, encoded := range p.Details {
		var detail anypb.Any
		if protojson.Unmarshal(encoded, &detail) == nil {
			st.Details = append(st.Details, &detail)
		}
	}
	return status.FromProto(st), true
}

func errorFromAnswer(response *http.Response, body []byte) error {
	var p problem
	if stack.IsMedia(response.Header.Get("Content-Type"), mediaType) && stdjson.Unmarshal(body, &p) == nil {
		if st, ok := p.status(); ok {
			return st.Err()
		}
	}
	const enough = 200
	return status.Errorf(stack.CodeOfHTTP(response.StatusCode), "rest-json: the server answered %s: %.*q", response.Status, enough, body)
}
