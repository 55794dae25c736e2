package record

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"wirelab.dev/internal/base/schemafile"
)

//go:generate go test -run ^TestSchema$ -update .

const schemaFile = "../../../docs/schema/record.schema.json"

// reflectSchema describes a line of records.jsonl from the type that it is
// written from, and its comments. Other keys are allowed: a reader of version 1
// must not break on what is added to it.
func reflectSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	reflector := jsonschema.Reflector{
		AllowAdditionalProperties: true,
		ExpandedStruct:            true,
		Namer:                     func(of reflect.Type) string { return strings.ToLower(of.Name()) },
	}
	for base, path := range map[string]string{
		"wirelab.dev/internal/data/record": ".", "wirelab.dev/internal/base/latency": "../../base/latency",
	} {
		if err := reflector.AddGoComments(base, path, jsonschema.WithFullComment()); err != nil {
			t.Fatal(err)
		}
	}
	return reflector.Reflect(&Record{})
}

func TestSchema(t *testing.T) {
	schemafile.Check(t, schemaFile, reflectSchema(t), "A record of wirelab: a line of records.jsonl")
}

func TestSchemaTakesRecords(t *testing.T) {
	schema, err := validator.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	validate := func(text string) error {
		value, err := validator.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(value)
	}
	text, err := json.Marshal(sample(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(string(text)); err != nil {
		t.Errorf("a record: %v", err)
	}
	for _, wrong := range []string{
		`{}`,
		strings.Replace(string(text), `"trial":1`, `"trial":"one"`, 1),
		strings.Replace(string(text), `"service":`, `"served":`, 1),
		strings.Replace(string(text), `"level":"ok"`, `"level":3`, 1),
	} {
		if validate(wrong) == nil {
			t.Errorf("the schema takes %.80s…", wrong)
		}
	}
}
