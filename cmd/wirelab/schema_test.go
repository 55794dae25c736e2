package main

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	"github.com/rogpeppe/go-internal/testscript"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"

	"wirelab.dev/internal/base/build"
	"wirelab.dev/internal/base/schemafile"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/run/doctor"
	"wirelab.dev/internal/run/fleet"
	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/run/selftest"
	"wirelab.dev/internal/run/serve"
	"wirelab.dev/internal/show/publish"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/show/report/gate"
	"wirelab.dev/internal/wire/peer"
)

//go:generate go test -run ^TestSchemasOfCommands$ -update .

// printed are the values that --json prints, by the name of their schema. The tests of
// internal/show/report hold the schema compare.
var printed = map[string]struct {
	title string
	value any
}{
	"advise":            {"What wirelab advise --json prints", publish.Advice{}},
	"diff":              {"What wirelab diff --json prints", gate.DiffReport{}},
	"doctor":            {"What wirelab doctor --json prints", doctor.Diagnosis{}},
	"explain":           {"What wirelab explain --json prints", publish.Explanation{}},
	"fleet-check":       {"What wirelab fleet check --json prints", fleet.Examination{}},
	"fleet-down":        {"What wirelab fleet down --json prints", fleet.EndedHub{}},
	"fleet-list":        {"What wirelab fleet list --json prints", []protocol.Card{}},
	"fleet-permissions": {"What wirelab fleet permissions --json prints", protocol.Permissions{}},
	"fleet-revoke":      {"What wirelab fleet revoke --json prints", fleet.Revoked{}},
	"fleet-token":       {"What wirelab fleet token --json prints", fleet.NewToken{}},
	"fleet-up":          {"What wirelab fleet up --json prints", fleetUpReport{}},
	"levers":            {"What wirelab explain --try --json prints", publish.LeverObject{}},
	"list":              {"What wirelab list --json prints", plan.Listing{}},
	"list-settings":     {"What wirelab list --settings --json prints", plan.AllSettings{}},
	"peers-list":        {"What wirelab peers list --json prints", []peer.PeerState{}},
	"plan":              {"What --dry-run --json of a measuring command prints", plan.RunPreview{}},
	"replicate":         {"What wirelab replicate --json prints", gate.Replication{}},
	"runs":              {"What wirelab list --runs --json prints", record.Listing{}},
	"version":           {"What wirelab version --json prints", build.Info{}},
	"selftest":          {"What wirelab selftest --json prints", selftest.Result{}},
	"serve":             {"What wirelab serve --json prints", serve.Listening{}},
	"situations":        {"What wirelab selftest --list --json prints", selftest.Listing{}},
}

func TestSchemasOfCommands(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(printed)) {
		o := schemafile.Output{
			Figure: reflect.TypeFor[matrix.Figure](), Name: schemafile.Name, Fields: report.IntervalFields,
			Map: func(of reflect.Type) *jsonschema.Schema {
				if of == reflect.TypeFor[peer.End]() {
					return &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string", Enum: []any{"server", "client"}}}
				}
				return nil
			},
			Comments: map[string]string{
				"wirelab.dev/cmd": "..", "wirelab.dev/internal/run": "../../internal/run", "wirelab.dev/internal/show": "../../internal/show",
				"wirelab.dev/internal/judge": "../../internal/judge", "wirelab.dev/internal/machine": "../../internal/machine",
				"wirelab.dev/internal/wire/peer": "../../internal/wire/peer", "wirelab.dev/internal/data": "../../internal/data",
				"wirelab.dev/internal/base/tuning": "../../internal/base/tuning",
			},
		}
		schemafile.Check(t, schemaPath(name), o.Reflect(t, printed[name].value), printed[name].title)
	}
}

// Each command with --json names its schemas. Each of these is made from the code, is in the manual, and is
// compared with real output by a script.
func TestEveryJSONOutputHasASchema(t *testing.T) {
	manual, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	scripts := allScripts(t)
	a := &app{stdout: io.Discard, stderr: io.Discard}
	found, named := 0, map[string]bool{"compare": true}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			walk(child)
		}
		flag := cmd.Flags().Lookup("json")
		if flag == nil {
			return
		}
		found++
		if len(flag.Annotations[schemasOf]) == 0 {
			t.Errorf("%s --json has no schema: add the flag with registerJSON", cmd.CommandPath())
		}
		for _, name := range flag.Annotations[schemasOf] {
			named[name] = true
		}
	}
	walk(a.root())
	if found < 15 {
		t.Errorf("found %d commands with --json: the walk does not reach them", found)
	}
	for name := range named {
		if _, made := printed[name]; !made && name != "compare" {
			t.Errorf("%s is not among the schemas that are made from the code", name)
		}
		if !strings.Contains(string(manual), "(schema/"+name+".schema.json)") {
			t.Errorf("docs/json.md does not link schema/%s.schema.json", name)
		}
		if !strings.Contains(scripts, "\nschema "+name+" ") {
			t.Errorf("no script in testdata compares output with the schema %s: add a line `schema %[1]s stdout`", name)
		}
	}
	for name := range printed {
		if !named[name] {
			t.Errorf("no command names the schema %s", name)
		}
	}
}

// A schema is worth something only if it refuses other output.
func TestSchemasRefuseOtherOutput(t *testing.T) {
	for name := range printed {
		schema, err := validator.NewCompiler().Compile(schemaPath(name))
		if err != nil {
			t.Fatal(err)
		}
		if schema.Validate(map[string]any{"of": "another command"}) == nil || schema.Validate([]any{"text"}) == nil {
			t.Errorf("%s accepts other output", name)
		}
	}
}

func allScripts(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	files, err := filepath.Glob(filepath.Join("testdata", "*", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

func schemaPath(name string) string {
	return filepath.Join(repository, "docs", "schema", name+".schema.json")
}

// checkSchema holds a file of JSON against a schema of docs/schema:
// schema NAME FILE.
func checkSchema(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: schema NAME FILE")
	}
	schema, err := validator.NewCompiler().Compile(schemaPath(args[0]))
	ts.Check(err)
	value, err := validator.UnmarshalJSON(strings.NewReader(ts.ReadFile(args[1])))
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
