package scenario

import (
	"encoding"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"wirelab.dev/internal/base/excerpt"
	"wirelab.dev/internal/base/spelling"
)

// decode fills a struct from a syntax tree, using the json tags as keys. It does not convert types.
// The YAML library's own decoder would read 1.5 clients as 1, and skip a key without a value
// (docs/decisions/0004).
func decode(node ast.Node, into reflect.Value) *problem {
	if into.CanAddr() {
		if text, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
			return decodeText(node, text)
		}
	}
	switch into.Kind() {
	case reflect.Struct:
		return decodeStruct(node, into)
	case reflect.Slice:
		return decodeList(node, into)
	case reflect.Map:
		return decodeMap(node, into)
	case reflect.String:
		text, ok := scalar(node)
		if !ok {
			return problemf(node, "want a text, found %s", describe(node))
		}
		into.SetString(text)
		return nil
	case reflect.Bool:
		b, ok := node.(*ast.BoolNode)
		if !ok {
			return problemf(node, "want true or false, found %s", describe(node))
		}
		into.SetBool(b.Value)
		return nil
	default:
		return decodeNumber(node, into)
	}
}

func decodeStruct(node ast.Node, into reflect.Value) *problem {
	mapping, ok := node.(*ast.MappingNode)
	if !ok {
		return problemf(node, "want keys and values, found %s", describe(node))
	}
	fields := fieldsByKey(into.Type())
	for _, entry := range mapping.Values {
		key := keyOf(entry)
		field, known := fields[key]
		if !known {
			return problemf(entry.Key, "unknown key %q; %s", key, spelling.Suggest(key, slices.Sorted(maps.Keys(fields))))
		}
		if entry.Value == nil || entry.Value.Type() == ast.NullType {
			return problemf(entry.Key, "%s has no value: give it one, or leave the key out", key)
		}
		if p := decode(entry.Value, into.FieldByIndex(field.Index)); p != nil {
			if p.node == entry.Value {
				p.text = key + ": " + p.text
			}
			return p
		}
	}
	return nil
}

func decodeList(node ast.Node, into reflect.Value) *problem {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		return problemf(node, "want a list, found %s: put it into [ ]", describe(node))
	}
	if len(list.Values) == 0 {
		into.SetZero() // like a decoder of JSON
		return nil
	}
	into.Set(reflect.MakeSlice(into.Type(), len(list.Values), len(list.Values)))
	for i, value := range list.Values {
		if p := decode(value, into.Index(i)); p != nil {
			return p
		}
	}
	return nil
}

func decodeMap(node ast.Node, into reflect.Value) *problem {
	mapping, ok := node.(*ast.MappingNode)
	if !ok {
		return problemf(node, "want keys and values, found %s", describe(node))
	}
	into.Set(reflect.MakeMap(into.Type()))
	for _, entry := range mapping.Values {
		element := reflect.New(into.Type().Elem()).Elem()
		if entry.Value == nil || entry.Value.Type() == ast.NullType {
			return problemf(entry.Key, "%s has no value: give it one, or leave the key out", keyOf(entry))
		}
		if p := decode(entry.Value, element); p != nil {
			return p
		}
		into.SetMapIndex(reflect.ValueOf(keyOf(entry)), element)
	}
	return nil
}

func decodeText(node ast.Node, into encoding.TextUnmarshaler) *problem {
	text, ok := scalar(node)
	if !ok {
		return problemf(node, "want one value, found %s", describe(node))
	}
	if err := into.UnmarshalText([]byte(text)); err != nil {
		return problemf(node, "%v", err)
	}
	return nil
}

func decodeNumber(node ast.Node, into reflect.Value) *problem {
	var number reflect.Value
	switch n := node.(type) {
	case *ast.IntegerNode:
		// n.Value is int64 for a negative number, otherwise uint64
		number = reflect.ValueOf(n.Value)
	case *ast.FloatNode:
		number = reflect.ValueOf(n.Value)
	default:
		return problemf(node, "want a number, found %s", describe(node))
	}
	switch {
	case into.CanFloat():
		into.SetFloat(number.Convert(into.Type()).Float())
	case into.CanInt() && (number.CanInt() || number.CanUint() && number.Uint() <= math.MaxInt64):
		into.SetInt(number.Convert(reflect.TypeFor[int64]()).Int())
	case into.CanUint() && number.CanUint():
		into.SetUint(number.Uint())
	case into.CanUint():
		return problemf(node, "want a whole number from 0, found %s", describe(node))
	default:
		return problemf(node, "want a whole number, found %s", describe(node))
	}
	return nil
}

// fieldsByKey maps json names to a struct's fields, including those of embedded structs.
func fieldsByKey(t reflect.Type) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for _, field := range reflect.VisibleFields(t) {
		if !field.Anonymous {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			fields[name] = field
		}
	}
	return fields
}

func keyOf(entry *ast.MappingValueNode) string {
	if text, ok := scalar(entry.Key); ok {
		return text
	}
	return entry.Key.String()
}

func scalar(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	default:
		return "", false
	}
}

func describe(node ast.Node) string {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys and values"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	}
	text, ok := scalar(node)
	if !ok {
		return "something else"
	}
	return `"` + excerpt.Start(text, 40) + `"`
}

// An Error is an error in a scenario file, with its position.
type Error struct {
	File         string
	Line, Column int // counted from 1
	Text         string
	Excerpt      string // the line with its neighbours, and a mark below the position
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s\n%s", e.File, e.Line, e.Column, e.Text, e.Excerpt)
}

// A problem is an error at a node of the syntax tree.
type problem struct {
	node ast.Node
	text string
	key  string // key of the wrong value; empty if unknown
}

func (p *problem) Error() string { return p.text }

func problemf(node ast.Node, format string, args ...any) *problem {
	return &problem{node: node, text: fmt.Sprintf(format, args...)}
}

// A source is a file from which errors quote lines.
type source struct {
	name string
	data []byte
}

func (s source) errorAt(line, column int, text string) *Error {
	lines := strings.Split(strings.TrimSuffix(string(s.data), "\n"), "\n")
	line = min(max(line, 1), len(lines))
	column = max(column, 1)
	var excerpt strings.Builder
	for n := max(line-2, 1); n <= min(line+1, len(lines)); n++ {
		fmt.Fprintf(&excerpt, "%5d | %s\n", n, strings.TrimRight(lines[n-1], "\r"))
		if n == line {
			fmt.Fprintf(&excerpt, "      | %s^\n", strings.Repeat(" ", column-1))
		}
	}
	return &Error{s.name, line, column, text, strings.TrimSuffix(excerpt.String(), "\n")}
}

func (s source) locate(p *problem) *Error {
	line, column := 1, 1
	if p.node != nil && p.node.GetToken() != nil && p.node.GetToken().Position != nil {
		line, column = startOf(p.node)
	}
	return s.errorAt(line, column, p.text)
}

// startOf returns the position at which a node begins. The parser returns the position of a
// mapping's first colon, where users would not look.
func startOf(node ast.Node) (line, column int) {
	token := node.GetToken()
	if m, ok := node.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		token = m.Values[0].Key.GetToken()
	}
	return token.Position.Line, token.Position.Column
}

func valueOfKey(mapping *ast.MappingNode, key string) ast.Node {
	for _, entry := range mapping.Values {
		if keyOf(entry) == key {
			return entry.Value
		}
	}
	return nil
}

// findNode returns the value at a path of keys and list indices. If the tree lacks this value, it
// returns the nearest enclosing value, and whole is false.
func findNode(tree *ast.MappingNode, path []any) (found ast.Node, whole bool) {
	found = tree
	for _, step := range path {
		var next ast.Node
		switch at := found.(type) {
		case *ast.MappingNode:
			if key, is := step.(string); is {
				next = valueOfKey(at, key)
			}
		case *ast.SequenceNode:
			if place, is := step.(int); is && place < len(at.Values) {
				next = at.Values[place]
			}
		}
		if next == nil {
			return found, false
		}
		found = next
	}
	return found, true
}

// inherit copies to a mapping the keys of another mapping that the first one lacks.
func inherit(to, from ast.Node) {
	child, parent := to.(*ast.MappingNode), from.(*ast.MappingNode)
	for _, entry := range parent.Values {
		if valueOfKey(child, keyOf(entry)) == nil {
			child.Values = append(child.Values, entry)
		}
	}
}

// cloneMapping returns a copy of a mapping with the same value nodes. nil gives an empty mapping.
func cloneMapping(node ast.Node) *ast.MappingNode {
	mapping, ok := node.(*ast.MappingNode)
	if !ok {
		return &ast.MappingNode{}
	}
	copied := *mapping
	copied.Values = slices.Clone(mapping.Values)
	return &copied
}

func withKeys(mapping *ast.MappingNode, keys []string) *ast.MappingNode {
	some := cloneMapping(mapping)
	some.Values = slices.DeleteFunc(some.Values, func(entry *ast.MappingValueNode) bool { return !slices.Contains(keys, keyOf(entry)) })
	return some
}

func removeKeys(mapping *ast.MappingNode, keys ...string) {
	mapping.Values = slices.DeleteFunc(mapping.Values, func(entry *ast.MappingValueNode) bool { return slices.Contains(keys, keyOf(entry)) })
}

func addKey(mapping *ast.MappingNode, key string, to ast.Node) {
	mapping.Values = append(mapping.Values, ast.MappingValue(nil, textNodeAt(nil, key), to))
}

// textNodeAt returns a node with one word, at the position of another node.
func textNodeAt(at ast.Node, text string) *ast.StringNode {
	node := ast.String(token.New(text, text, &token.Position{Line: 1, Column: 1}))
	if at != nil && at.GetToken() != nil {
		node.Token.Position = at.GetToken().Position
	}
	return node
}
