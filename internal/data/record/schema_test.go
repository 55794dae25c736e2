package record

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
)

//go:generate go test -run ^TestSchema$ -update .

var update = flag.Bool("update", false, "write docs/schema/record.schema.json")

const (
	schemaFile = "../../../docs/schema/record.schema.json"
	schemaID   = "https://wirelab.dev/schema/record.schema.json"
)

// reflectSchema describes a line of records.jsonl from the type that it is
// written from, and its comments. Other keys are allowed: a reader of version 1
// must not break on what is added to it.
func reflectSchema(t *testing.T) []byte {
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
	schema := reflector.Reflect(&Record{})
	schema.ID = schemaID
	schema.Title = "A record of wirelab: a line of records.jsonl"
	data, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

func TestSchema(t *testing.T) {
	want := reflectSchema(t)
	if *update {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the types say: run go generate ./internal/data/record", schemaFile)
	}
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
