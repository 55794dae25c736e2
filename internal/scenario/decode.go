package scenario

import (
	"encoding"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// decode fills a struct from a tree, key by key as its json tags say. It takes
// nothing for another thing: the YAML library's own decoder would read 1.5
// clients as 1, and pass over a key without a value (docs/decisions/0004).
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
			names := make([]string, 0, len(fields))
			for name := range fields {
				names = append(names, name)
			}
			slices.Sort(names)
			return problemf(entry.Key, "unknown key %q; %s", key, Suggest(key, names))
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
	into.Set(reflect.MakeSlice(into.Type(), len(list.Values), len(list.Values)))
	for i, value := range list.Values {
		if p := decode(value, into.Index(i)); p != nil {
			return p
		}
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
	var number any
	switch n := node.(type) {
	case *ast.IntegerNode:
		number = n.Value
	case *ast.FloatNode:
		number = n.Value
	}
	switch {
	case number == nil:
		return problemf(node, "want a number, found %s", describe(node))
	case into.CanFloat():
		into.SetFloat(reflect.ValueOf(number).Convert(into.Type()).Float())
		return nil
	}
	switch n := number.(type) {
	case int64:
		if into.CanInt() {
			into.SetInt(n)
			return nil
		}
	case uint64:
		if into.CanUint() {
			into.SetUint(n)
			return nil
		}
		if into.CanInt() && int64(n) >= 0 {
			into.SetInt(int64(n))
			return nil
		}
	}
	if into.CanUint() {
		return problemf(node, "want a whole number from 0, found %s", describe(node))
	}
	return problemf(node, "want a whole number, found %s", describe(node))
}

// fieldsByKey maps the json names of a struct, embedded structs included.
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

// scalar is the text of a node that is one value.
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

// describe names what a node is, in the words of an error.
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
	const most = 40
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return `"` + text + `"`
}
