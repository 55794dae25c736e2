package scenario

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"wirelab.dev/internal/base/schemafile"
	"wirelab.dev/studies"
)

//go:generate go test -run ^TestSchema$ -update .

const schemaFile = "../../../docs/schema/scenario.schema.json"

// reflectSchema describes a scenario file from the types that it is decoded
// into, and their comments.
func reflectSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	reflector := jsonschema.Reflector{
		RequiredFromJSONSchemaTags: true,
		ExpandedStruct:             true,
		Namer: func(of reflect.Type) string {
			return strings.ToLower(of.Name())
		},
		Mapper: func(of reflect.Type) *jsonschema.Schema {
			switch of {
			case reflect.TypeFor[Variant]():
				return &jsonschema.Schema{Type: "string", Pattern: `^[a-z0-9-]+(:[a-z0-9-]+=[^,]+(,[a-z0-9-]+=[^,]+)*)?$`}
			case reflect.TypeFor[Connection]():
				return &jsonschema.Schema{Type: "string", Pattern: `^(shared|per-worker|pool(:[1-9][0-9]*)?|new|resumed|0rtt)$`}
			case reflect.TypeFor[Goal]():
				return &jsonschema.Schema{Type: "string", Pattern: `^[pP][0-9.]+ *< *[0-9.]+(ns|us|µs|ms|s|m)$`}
			case reflect.TypeFor[Duration]():
				return &jsonschema.Schema{Type: "string", Pattern: `^[0-9.]+(ns|us|µs|ms|s|m|h)([0-9.]+(ns|us|µs|ms|s|m|h))*$`}
			case reflect.TypeFor[Share]():
				return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "number"}, {Type: "string", Pattern: `^[0-9.]+%?$`}}}
			case reflect.TypeFor[BurstLoss]():
				return &jsonschema.Schema{Type: "string", Pattern: `^[0-9.]+%?/[0-9.]+$`}
			case reflect.TypeFor[BitRate]():
				return &jsonschema.Schema{Type: "string", Pattern: `^[0-9.]+ *[GMk]?bit/s$`}
			case reflect.TypeFor[Quoted]():
				return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "number"}, {Type: "string"}}}
			case reflect.TypeFor[Payload]():
				return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
					{Type: "integer", Minimum: "0"},
					{Type: "string", Pattern: `^[0-9]+ *(B|KiB|KB|MiB|MB)?(/[0-9]+ *(B|KiB|KB|MiB|MB)?)?$`},
				}}
			}
			return nil
		},
	}
	if err := reflector.AddGoComments("wirelab.dev/internal/data/scenario", "."); err != nil {
		t.Fatal(err)
	}
	return reflector.Reflect(&file{})
}

func TestSchema(t *testing.T) {
	schemafile.Check(t, schemaFile, reflectSchema(t), "A scenario of wirelab")
}

// The schema must take what Parse takes, and refuse what is plainly wrong.
func TestSchemaAgreesWithParse(t *testing.T) {
	schema, err := validator.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	validate := func(data []byte) error {
		text, err := yaml.YAMLToJSON(data)
		if err != nil {
			t.Fatal(err)
		}
		value, err := validator.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(value)
	}
	resolved, err := json.Marshal(parseStudy(t, "kernel-study.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	valid := map[string][]byte{"the starter": Starter(), "a small one": []byte(good), "a study's JSON": resolved}
	files, err := fs.Glob(studies.FS, "*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no studies", err)
	}
	for _, name := range files {
		if valid[name], err = fs.ReadFile(studies.FS, name); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range valid {
		if err := validate(data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, test := range []struct{ from, to string }{
		{"sizes", "size"},
		{"[64]", "[64XB]"},
		{"[1, 50]", "[0]"},
		{"[1, 50]", "[1.5]"},
		{"[tcp, grpc]", "[Tcp]"},
		{"version: 1", "version: 2"},
		{"name: s\n", ""},
		{"[64]", "[64]\n    connection: fresh"},
		{"[64]", "[64]\n    load: {model: half}"},
		{"[64]", "[64]\n    warm-up: {at-most: 3}"},
	} {
		if validate([]byte(strings.Replace(good, test.from, test.to, 1))) == nil {
			t.Errorf("the schema takes %q for %q", test.to, test.from)
		}
	}
}
