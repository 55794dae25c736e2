// Package schemafile makes the schemas of docs/schema from Go types, and compares the files with the
// types. Only tests use it.
package schemafile

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
)

var update = flag.Bool("update", false, "write the files that are made from types, such as the schemas in docs/schema")

// Updating reports whether tests should write the files that are made from types.
func Updating() bool { return *update }

// An Output says how values of --json are written, beyond what their Go types say.
type Output struct {
	Figure   reflect.Type                                      // a number or null
	Name     func(of reflect.Type) string                      // names a definition
	Fields   func(of reflect.Type) []reflect.StructField       // members of an object that are not fields of the struct
	Map      func(of reflect.Type) (schema *jsonschema.Schema) // replaces the schema of a type; may return nil
	Comments map[string]string                                 // folders with the types' comments, by import path
}

// Reflect describes a value from its types, their tags and their comments, as a reader of --json sees it.
func (o Output) Reflect(t *testing.T, value any) *jsonschema.Schema {
	t.Helper()
	textMarshaler := reflect.TypeFor[encoding.TextMarshaler]()
	named := map[string]reflect.Type{}
	reflector := jsonschema.Reflector{
		ExpandedStruct:            true,
		AllowAdditionalProperties: true, // names may be added without a new version
		Namer: func(of reflect.Type) string {
			name := o.Name(of)
			if other := cmp.Or(named[name], of); other != of && name != "" {
				t.Fatalf("the definition %s is for %v and for %v: give them different names", name, other, of)
			}
			named[name] = of
			return name
		},
		AdditionalFields: o.Fields,
		Mapper: func(of reflect.Type) *jsonschema.Schema {
			switch {
			case of == o.Figure:
				return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "number"}, {Type: "null"}}}
			case of.Implements(textMarshaler):
				return &jsonschema.Schema{Type: "string"}
			case o.Map == nil:
				return nil
			}
			return o.Map(of)
		},
	}
	reflector.CommentMap = readComments(t, o.Comments)
	schema := reflector.Reflect(value)
	for _, of := range schema.Definitions {
		for property := of.Properties.Oldest(); property != nil; property = property.Next() {
			if either := property.Value.OneOf; len(either) > 0 && either[0].Description != "" {
				property.Value.Description, either[0].Description = either[0].Description, "" // of a nullable field
			}
		}
	}
	return schema
}

// commentsByFolder holds the comments that were read already: reading them takes most of the time.
var commentsByFolder = map[string]map[string]string{}

func readComments(t *testing.T, folders map[string]string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for base, folder := range folders {
		if commentsByFolder[folder] == nil {
			var reader jsonschema.Reflector
			if err := reader.AddGoComments(base, folder); err != nil {
				t.Fatal(err)
			}
			commentsByFolder[folder] = reader.CommentMap
		}
		maps.Copy(all, commentsByFolder[folder])
	}
	return all
}

// Name returns a definition's name, in lower case.
func Name(of reflect.Type) string { return strings.ToLower(of.Name()) }

// Check compares a file with the schema that was read from the types. With the flag -update, it writes the file.
func Check(t *testing.T, path string, schema *jsonschema.Schema, title string) {
	t.Helper()
	schema.ID, schema.Title = jsonschema.ID("https://wirelab.dev/schema/"+filepath.Base(path)), title
	want, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the types say: run go generate in the folder of this test", path)
	}
}
