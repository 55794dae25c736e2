package scenario

import (
	"fmt"
	"reflect"

	"github.com/goccy/go-yaml/ast"
)

// A Document is a YAML file of another kind than a scenario, read as strictly.
type Document struct {
	source source
	tree   *ast.MappingNode
}

// ReadDocument reads one mapping of plain values of this program's version. Its error is
// an [*Error] if it has a place.
func ReadDocument(name string, data []byte) (*Document, error) {
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s: %d bytes: the maximum is %d", name, len(data), maxFileBytes)
	}
	src := source{name, data}
	tree, err := parseTree(src)
	if err != nil {
		return nil, err
	}
	if p := checkVersion(tree); p != nil {
		return nil, src.locate(p)
	}
	return &Document{src, tree}, nil
}

// Decode fills a struct, key by key as its json tags say.
func (d *Document) Decode(into any) error {
	if p := decode(d.tree, reflect.ValueOf(into).Elem()); p != nil {
		return d.source.locate(p)
	}
	return nil
}

// Has reports whether there is a value at a path of keys and places in lists.
func (d *Document) Has(path ...any) bool {
	_, whole := d.find(path)
	return whole
}

// Errorf returns an error at a path, or at the part of it that the file has.
func (d *Document) Errorf(path []any, format string, args ...any) error {
	node, _ := d.find(path)
	return d.source.locate(problemf(node, format, args...))
}

func (d *Document) find(path []any) (found ast.Node, whole bool) {
	found = d.tree
	for _, step := range path {
		var next ast.Node
		switch at := found.(type) {
		case *ast.MappingNode:
			if key, is := step.(string); is {
				next = value(at, key)
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
