package schema

import (
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"wirelab.dev/internal/base/excerpt"
	"wirelab.dev/internal/base/pattern"
	"wirelab.dev/internal/base/spelling"
)

// maxExplained limits how many levels of nested messages are searched for an error.
const maxExplained = 64

// A fault locates a JSON value that does not fit its message or field.
type fault struct {
	descriptor protoreflect.MessageDescriptor
	span       span
	path       string // place in the whole message, as in lines[2].price; empty at the top
	depth      int
	cause      error
}

// explain returns an error that names the wrong field. protojson stops at the first error and does
// not name the message. So explain tests each field and searches inside the first wrong one.
func explain(types resolver, text []byte, f fault) error {
	if err := checkSyntax(text, f.span); err != nil {
		return err
	}
	if f.depth > maxExplained || text[f.span.from:][0] != '{' || hasSpecialJSON(f.descriptor) {
		return f.withPlace(text)
	}
	d := f.descriptor
	if d.FullName() == "google.protobuf.Any" {
		held, err := typeInAny(types, text, f)
		if err != nil {
			return err
		}
		if held == nil || hasSpecialJSON(held) {
			return f.withPlace(text)
		}
		d = held
	}
	for _, m := range partsOf(text, f.span) {
		if m.name == "@type" && f.descriptor != d {
			continue
		}
		at := joinPath(f.path, m.name)
		field := fieldOf(types, d, m.name)
		if field == nil {
			return fmt.Errorf("%s: %s has no field %q: %s", formatPlace(text, m.key.from), d.FullName(), m.name, suggestFields(d, m.name))
		}
		alone := fmt.Appendf(nil, "{%s:%s}", text[m.key.from:m.key.to], text[m.value.from:m.value.to])
		err := protojson.UnmarshalOptions{Resolver: types, AllowPartial: true}.Unmarshal(alone, dynamicpb.NewMessage(d))
		if err != nil {
			return explainField(types, text, field, fault{span: m.value, path: at, depth: f.depth, cause: err})
		}
	}
	return f.withPlace(text)
}

func explainField(types resolver, text []byte, field protoreflect.FieldDescriptor, f fault) error {
	wrong := func(f fault, want string) error {
		return fmt.Errorf("%s: %s is %s: found %s%s", formatPlace(text, f.span.from), f.path, withArticle(want), excerpt.Start(string(text[f.span.from:f.span.to]), 60), wantValues(field))
	}
	first := text[f.span.from]
	inner := field.Message()
	if field.IsMap() {
		inner = field.MapValue().Message()
	}
	parts := []fault{f}
	switch {
	case field.IsList() && first == '[', field.IsMap() && first == '{':
		parts = parts[:0]
		for i, p := range partsOf(text, f.span) {
			at := fmt.Sprintf("%s[%d]", f.path, i)
			if field.IsMap() {
				at = fmt.Sprintf("%s[%q]", f.path, p.name)
			}
			parts = append(parts, fault{span: p.value, path: at})
		}
	case field.IsList() || field.IsMap():
		return wrong(f, typeName(field))
	}
	for _, part := range parts {
		if inner == nil {
			alone := fmt.Appendf(nil, "{%q:[%s]}", field.JSONName(), text[part.span.from:part.span.to])
			if field.IsList() && (protojson.UnmarshalOptions{Resolver: types, AllowPartial: true}).Unmarshal(alone, dynamicpb.NewMessage(field.ContainingMessage())) != nil {
				return wrong(part, elementName(field))
			}
			continue
		}
		err := protojson.UnmarshalOptions{Resolver: types, AllowPartial: true}.Unmarshal(text[part.span.from:part.span.to], dynamicpb.NewMessage(inner))
		if err != nil {
			part.descriptor, part.depth, part.cause = inner, f.depth+1, err
			return explain(types, text, part)
		}
	}
	return wrong(f, typeName(field))
}

// wantValues returns the last part of an error about an enum value: the known values.
func wantValues(field protoreflect.FieldDescriptor) string {
	if field.Enum() == nil {
		return ""
	}
	var names []string
	for i := range field.Enum().Values().Len() {
		names = append(names, string(field.Enum().Values().Get(i).Name()))
	}
	return ": want one of " + joinNames(names)
}

// typeInAny returns the message type in a google.protobuf.Any, or nil if "@type" is missing.
func typeInAny(types resolver, text []byte, f fault) (protoreflect.MessageDescriptor, error) {
	for _, m := range partsOf(text, f.span) {
		var url string
		if m.name != "@type" || json.Unmarshal(text[m.value.from:m.value.to], &url) != nil {
			continue
		}
		held, err := types.FindMessageByURL(url)
		if err != nil {
			return nil, fmt.Errorf("%s: no file defines %q, the type of this google.protobuf.Any: want a message that a file defines, as in type.googleapis.com/%s",
				formatPlace(text, m.value.from), url, f.descriptor.FullName())
		}
		return held.Descriptor(), nil
	}
	return nil, nil //nolint:nilnil // protojson reports the missing "@type"
}

// hasSpecialJSON reports whether a type's JSON form differs from an object with its fields.
func hasSpecialJSON(d protoreflect.MessageDescriptor) bool {
	return d.FullName().Parent() == "google.protobuf" && d.Name() != "Any" && d.Name() != "Empty"
}

// withPlace returns protojson's error with the place in the whole text.
func (f fault) withPlace(text []byte) error {
	said := f.cause.Error()
	at := f.span.from
	if found := errorPosition().FindStringSubmatchIndex(said); found != nil {
		var line, column int
		if _, err := fmt.Sscanf(said[found[0]:found[1]], "(line %d:%d)", &line, &column); err == nil && f.path == "" {
			at = min(offsetOf(text[f.span.from:f.span.to], line, column)+f.span.from, len(text))
		}
		said = said[:found[0]] + said[found[1]:]
	}
	said = strings.TrimSpace(errorPrefix().ReplaceAllString(said, ""))
	said = strings.TrimPrefix(said, ": ")
	where := ""
	if f.path != "" {
		where = f.path + ", "
	}
	return fmt.Errorf("%s: %s%s: %s", formatPlace(text, at), where, withArticle(string(f.descriptor.FullName())), said)
}

// protojson's errors begin with its name and white space, which differs between builds.
var (
	errorPrefix   = pattern.Lazy(`^proto:[\s\x{a0}]*(syntax error )?`)
	errorPosition = pattern.Lazy(`\(line \d+:\d+\):?\s?`)
)

// fieldOf finds a field by its JSON name or its name in the .proto file, or returns nil.
func fieldOf(types resolver, d protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if extension, ok := strings.CutPrefix(name, "["); ok {
		found, err := types.FindExtensionByName(protoreflect.FullName(strings.TrimSuffix(extension, "]")))
		if err != nil {
			return nil
		}
		return found.TypeDescriptor()
	}
	if field := d.Fields().ByJSONName(name); field != nil {
		return field
	}
	return d.Fields().ByTextName(name)
}

// suggestFields returns the last part of an error about an unknown field: the existing names.
func suggestFields(d protoreflect.MessageDescriptor, name string) string {
	var names []string
	for i := range d.Fields().Len() {
		names = append(names, d.Fields().Get(i).JSONName())
	}
	meant, found := spelling.ClosestWord(name, names)
	switch {
	case found:
		return "did you mean " + meant + "?"
	case len(names) == 0:
		return "the message has no fields"
	}
	return "want one of " + joinNames(names)
}

func joinPath(before, name string) string {
	if before == "" {
		return name
	}
	return before + "." + name
}

func withArticle(name string) string {
	if strings.ContainsRune("aeiouAEIOU", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}
