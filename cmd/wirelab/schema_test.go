package main

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// checkSchema holds a file of JSON against a schema of docs/schema:
// schema NAME FILE.
func checkSchema(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: schema NAME FILE")
	}
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join(repository, "docs", "schema", args[0]+".schema.json"))
	ts.Check(err)
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(ts.ReadFile(args[1])))
	ts.Check(err)
	ts.Check(schema.Validate(value))
}

var repository = func() string {
	path, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return path
}()

func itoa(n int) string { return strconv.Itoa(n) }
