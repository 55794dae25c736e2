package schema

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"wirelab.dev/internal/base/excerpt"
	"wirelab.dev/internal/base/spelling"
)

// maxExplained limits the depth of messages in which an error is looked for.
const maxExplained = 64

// A fault is a value that cannot become a message, or a part of one.
type fault struct {
	descriptor protoreflect.MessageDescriptor
	span       span
	path       string // place in the whole, as in lines[2].price; empty: the whole
	depth      int
	cause      error
}

// explain returns an error that names the wrong field. protojson stops at the first error, but does
// not name its message; so explain tries the fields one by one, and goes into the first that fails.
func explain(types resolver, text []byte, f fault) error {
	if err := checkSyntax(text, f.span); err != nil {
		return err
	}
	if f.depth > maxExplained || text[f.span.from:][0] != '{' || special(f.descriptor) {
		return f.plain(text)
	}
	d := f.descriptor
	if d.FullName() == "google.protobuf.Any" {
		held, err := anyHolds(types, text, f)
		if err != nil {
			return err
		}
		if held == nil || special(held) {
			return f.plain(text)
		}
		d = held
	}
	for _, m := range partsOf(text, f.span) {
		if m.name == "@type" && f.descriptor != d {
			continue
		}
		at := path(f.path, m.name)
		field := fieldOf(types, d, m.name)
		if field == nil {
			return fmt.Errorf("%s: %s has no field %q: %s", place(text, m.key.from), d.FullName(), m.name, nearest(d, m.name))
		}
		alone := fmt.Appendf(nil, "{%s:%s}", text[m.key.from:m.key.to], text[m.value.from:m.value.to])
		err := protojson.UnmarshalOptions{Resolver: types, AllowPartial: true}.Unmarshal(alone, dynamicpb.NewMessage(d))
		if err != nil {
			return explainField(types, text, field, fault{span: m.value, path: at, depth: f.depth, cause: err})
		}
	}
	return f.plain(text)
}

// explainField returns an error that says what is wrong with a field's value.
func explainField(types resolver, text []byte, field protoreflect.FieldDescriptor, f fault) error {
	wrong := func(f fault, want string) error {
		return fmt.Errorf("%s: %s is %s: found %s%s", place(text, f.span.from), f.path, article(want), excerpt.Start(string(text[f.span.from:f.span.to]), 60), values(field))
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

// values returns the end of an error about an unknown enumeration value: the known ones.
func values(field protoreflect.FieldDescriptor) string {
	if field.Enum() == nil {
		return ""
	}
	var names []string
	for i := range field.Enum().Values().Len() {
		names = append(names, string(field.Enum().Values().Get(i).Name()))
	}
	return ": want one of " + list(names)
}

// anyHolds returns the type in a google.protobuf.Any, or nil if it does not say.
func anyHolds(types resolver, text []byte, f fault) (protoreflect.MessageDescriptor, error) {
	for _, m := range partsOf(text, f.span) {
		var url string
		if m.name != "@type" || json.Unmarshal(text[m.value.from:m.value.to], &url) != nil {
			continue
		}
		held, err := types.FindMessageByURL(url)
		if err != nil {
			return nil, fmt.Errorf("%s: a google.protobuf.Any of type %q, which is in none of the files: want the full name of a message in them, as in type.googleapis.com/%s",
				place(text, m.value.from), url, f.descriptor.FullName())
		}
		return held.Descriptor(), nil
	}
	return nil, nil //nolint:nilnil // protojson then says that "@type" is missing
}

// special reports whether a type has a JSON form other than its fields as an object's members.
func special(d protoreflect.MessageDescriptor) bool {
	return d.FullName().Parent() == "google.protobuf" && d.Name() != "Any" && d.Name() != "Empty"
}

// plain returns protojson's error, with the place in the whole text.
func (f fault) plain(text []byte) error {
	said := f.cause.Error()
	at := f.span.from
	if found := saidPlace.FindStringSubmatchIndex(said); found != nil {
		var line, column int
		if _, err := fmt.Sscanf(said[found[0]:found[1]], "(line %d:%d)", &line, &column); err == nil && f.path == "" {
			at = min(offsetOf(text[f.span.from:f.span.to], line, column)+f.span.from, len(text))
		}
		said = said[:found[0]] + said[found[1]:]
	}
	said = strings.TrimSpace(saidName.ReplaceAllString(said, ""))
	said = strings.TrimPrefix(said, ": ")
	where := ""
	if f.path != "" {
		where = f.path + ", "
	}
	return fmt.Errorf("%s: %s%s: %s", place(text, at), where, article(string(f.descriptor.FullName())), said)
}

// protojson's errors begin with its name and a white space that differs between programs.
var (
	saidName  = regexp.MustCompile(`^proto:[\s\x{a0}]*(syntax error )?`)
	saidPlace = regexp.MustCompile(`\(line \d+:\d+\):?\s?`)
)

// fieldOf finds a field by its name in JSON or in the .proto. It returns nil if there is none.
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

// nearest returns the end of an error about an unknown field: the existing names.
func nearest(d protoreflect.MessageDescriptor, name string) string {
	var names []string
	for i := range d.Fields().Len() {
		names = append(names, d.Fields().Get(i).JSONName())
	}
	meant, found := spelling.Meant(name, names)
	switch {
	case found:
		return "did you mean " + meant + "?"
	case len(names) == 0:
		return "it has none"
	}
	return "want one of " + list(names)
}

func path(before, name string) string {
	if before == "" {
		return name
	}
	return before + "." + name
}

func article(name string) string {
	if strings.ContainsRune("aeiouAEIOU", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}
