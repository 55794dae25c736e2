package journey

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"wirelab.dev/internal/base/schemafile"
	"wirelab.dev/internal/data/scenario"
)

//go:generate go test -run ^TestSchema$ -update .

const schemaFile = "../../../../docs/schema/users.schema.json"

// reflectSchema describes a file of users from the types that it is decoded into, and their comments.
func reflectSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	const durations = `[0-9.]+(ns|us|µs|ms|s|m|h)([0-9.]+(ns|us|µs|ms|s|m|h))*`
	reflector := jsonschema.Reflector{
		RequiredFromJSONSchemaTags: true,
		ExpandedStruct:             true,
		Namer:                      func(of reflect.Type) string { return strings.ToLower(of.Name()) },
		Mapper: func(of reflect.Type) *jsonschema.Schema {
			switch of {
			case reflect.TypeFor[Think]():
				return &jsonschema.Schema{Type: "string", Pattern: `^` + durations + `( *\.\. *` + durations + `)?$`}
			case reflect.TypeFor[scenario.Duration]():
				return &jsonschema.Schema{Type: "string", Pattern: `^` + durations + `$`}
			}
			return nil
		},
	}
	if err := reflector.AddGoComments("wirelab.dev/internal/wire/service/journey", "."); err != nil {
		t.Fatal(err)
	}
	return reflector.Reflect(&file{})
}

func TestSchema(t *testing.T) {
	schemafile.Check(t, schemaFile, reflectSchema(t), "Users for wirelab load")
}

// TestSchemaAgreesWithParse wants the schema to take what Parse takes, and to refuse what is plainly wrong.
func TestSchemaAgreesWithParse(t *testing.T) {
	schema, err := validator.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../../docs/load-scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]bool{good: true, withCalls: true}
	examples := strings.Split(string(page), "```yaml\n")[1:]
	if len(examples) < 2 {
		t.Errorf("docs/load-scenarios.md has %d examples", len(examples))
	}
	for _, example := range examples {
		example, _, _ = strings.Cut(example, "```")
		texts[example] = true
	}
	for old, wrong := range map[string]string{
		"think: 10ms..20ms": "think: soon", "get: /items\n": "got: /items\n", "weight: 3": "weight: many", "version: 1": "version: one",
		"rows: [{name: ann}, {name: bob}]": "rows: ann",
	} {
		texts[strings.Replace(good, old, wrong, 1)] = false
	}
	for text, isValid := range texts {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		value, err := validator.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		_, parses := Parse("users.yaml", []byte(text))
		if valid := schema.Validate(value); (valid == nil) != isValid || (parses == nil) != isValid {
			t.Errorf("valid: want %v, the schema says %v, Parse %v, of\n%s", isValid, valid, parses, text)
		}
	}
}
