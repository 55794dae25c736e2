// Package schemafile holds a schema of docs/schema to the types that it describes, for the tests of these types.
package schemafile

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/invopop/jsonschema"
)

var update = flag.Bool("update", false, "write the schema in docs/schema")

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
