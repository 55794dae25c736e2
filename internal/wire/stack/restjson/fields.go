package restjson

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/wire/route"
)

// location returns the path and the query of a call.
func location(r route.Route, request proto.Message) (string, error) {
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
			return "", fmt.Errorf("%s is empty; the path needs it", segment.In.Name())
		}
		path = append(path, escape(text)...)
	}
	if r.InBody {
		return string(path), nil
	}
	query := url.Values{}
	var err error
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case r.Takes(field):
		case field.Cardinality() == protoreflect.Repeated || field.Message() != nil || field.Kind() == protoreflect.BytesKind:
			err = fmt.Errorf("%s cannot be sent in a query: it is no single number, text or boolean", field.FullName())
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

// escape encodes a text as a segment of a path. Every client and server would resolve
// the segments "." and "..".
func escape(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

// fill sets the request's fields that are in the path and in the query.
func fill(r route.Route, request proto.Message, inPath func(string) string, query url.Values) error {
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
		if field == nil || r.Takes(field) {
			return fmt.Errorf("query: unknown field %q; %s", name, spelling.Suggest(name, queryNames(r, fields)))
		}
		value, err := parseField(field, values)
		if err != nil {
			return fmt.Errorf("query: %s: %w", name, err)
		}
		message.Set(field, value)
	}
	return nil
}

func queryNames(r route.Route, fields protoreflect.FieldDescriptors) []string {
	var names []string
	for i := range fields.Len() {
		if !r.Takes(fields.Get(i)) {
			names = append(names, string(fields.Get(i).Name()))
		}
	}
	return names
}

// parseField parses a field's value in a query.
func parseField(field protoreflect.FieldDescriptor, values []string) (protoreflect.Value, error) {
	if len(values) != 1 || field.Cardinality() == protoreflect.Repeated {
		return protoreflect.Value{}, fmt.Errorf("has %d values, want one", len(values))
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
