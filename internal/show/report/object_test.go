package report

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"wirelab.dev/internal/base/schemafile"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

//go:generate go test -run ^(TestSchema|TestPageTypes)$ -update .

const schemaFile = "../../../docs/schema/compare.schema.json"

// reflectSchema describes an object as programs or the page read it.
func reflectSchema(t *testing.T, object any, as audience) *jsonschema.Schema {
	t.Helper()
	o := schemafile.Output{
		Figure: figureType, Name: schemafile.Name, Comments: map[string]string{},
		Fields: func(of reflect.Type) (further []reflect.StructField) {
			for field := range of.Fields() {
				if name := field.Tag.Get("page"); name != "" && as == forPage {
					field.Tag = reflect.StructTag(`json:"` + name + `"`)
					further = append(further, field)
				}
			}
			return append(further, intervalFields(of, as)...)
		},
	}
	if as == forPage {
		o.Name = func(of reflect.Type) string { return of.Name() }
	}
	for _, room := range []string{"show/report", "judge/analysis", "judge/advice", "data/record", "data/scenario", "base/tuning"} {
		o.Comments["wirelab.dev/internal/"+room] = "../../" + room
	}
	return o.Reflect(t, object)
}

func TestSchema(t *testing.T) {
	schema := reflectSchema(t, &Object{}, forPrograms)
	schemafile.Check(t, schemaFile, schema, "What wirelab compare --json and run --json print")
}

// Every name in the object is explained, in the manual or by its comment, which the
// schema has.
func TestManualNamesEveryField(t *testing.T) {
	manual, err := os.ReadFile("../../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	schema := reflectSchema(t, &Object{}, forPrograms)
	for _, of := range append(slices.Collect(maps.Values(schema.Definitions)), schema) {
		for property := of.Properties.Oldest(); property != nil; property = property.Next() {
			if property.Value.Description == "" {
				names = append(names, property.Key)
			}
		}
	}
	for _, name := range names {
		if !bytes.Contains(manual, []byte("`"+name+"`")) {
			t.Errorf("docs/json.md does not explain `%s`, and its field has no comment", name)
		}
	}
}

// checkGolden holds a text against a file, or writes the file with -update.
func checkGolden(t *testing.T, file string, got []byte) {
	t.Helper()
	if schemafile.Updating() {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what is written now: see what differs, then run go test ./internal/show/report -update\n%s", file, got)
	}
}

func TestObjectFollowsItsSchema(t *testing.T) {
	schema, err := validator.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]*Run{
		"a full run": fixtureRun(t),
		"lifecycles": fixtureLifecycle(t),
		"loads":      fixtureLoads(t),
		"no trial":   {Summary: &analysis.Summary{Name: "empty", Status: "running", Planned: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := WriteJSON(&out, run); err != nil {
				t.Fatal(err)
			}
			value, err := validator.UnmarshalJSON(bytes.NewReader(out.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Error(err)
			}
		})
	}
}

// The schema is worth something only if it refuses what is wrong.
func TestSchemaRefuses(t *testing.T) {
	schema, err := validator.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(object map[string]any){
		"a cell without throughput": func(o map[string]any) { delete(o["cells"].([]any)[0].(map[string]any), "throughput_rps") },
		"a latency as text":         func(o map[string]any) { o["cells"].([]any)[0].(map[string]any)["service_us"] = "1 ms" },
		"a list that is null":       func(o map[string]any) { o["knees"] = nil },
		"a status of its own":       func(o map[string]any) { o["status"] = "paused" },
	} {
		t.Run(name, func(t *testing.T) {
			object := decoded(t, fixtureRun(t))
			spoil(object)
			if schema.Validate(object) == nil {
				t.Error("was let pass")
			}
		})
	}
}

func TestObjectKeepsWhatIsKnown(t *testing.T) {
	object := decoded(t, fixtureRun(t))
	cells := object["cells"].([]any)
	find := func(variant string, bytes, clients float64) map[string]any {
		for _, cell := range cells {
			c := cell.(map[string]any)
			if c["variant"] == variant && c["request_bytes"] == bytes && c["clients"] == clients {
				return c
			}
		}
		t.Fatalf("no cell %s %v %v", variant, bytes, clients)
		return nil
	}
	plain := find("tcp", 64, 1)
	if got, want := plain["service_us"], plain["response_us"]; !reflect.DeepEqual(got, want) {
		t.Errorf("a closed loop's service time %v is not its response time %v", got, want)
	}
	if _, there := plain["wait_us"]; there {
		t.Error("a wait without a limit")
	}
	interval := plain["intervals"].(map[string]any)["service_us.p99"].(map[string]any)
	if low, high := interval["low"].(float64), interval["high"].(float64); low >= high || interval["confidence"] != 0.95 {
		t.Errorf("interval of service_us.p99: %v", interval)
	}

	limited := find("tcp:inflight=50", 64<<10, 500)
	if service, response := limited["service_us"].(map[string]any)["p50"], limited["response_us"].(map[string]any)["p50"]; service != 2900.0 || response != 44000.0 {
		t.Errorf("service and response time with a limit: %v and %v, want 2900 and 44000", service, response)
	}
	if limited["wait_us"] == nil {
		t.Error("no wait with a limit")
	}

	invalid := find("rest", 64<<10, 500)
	for _, field := range []string{"throughput_rps", "p99_over_p50", "client_cpu_us"} {
		if invalid[field] != nil {
			t.Errorf("an invalid cell's %s is %v, want null", field, invalid[field])
		}
	}
	if warning := invalid["warnings"].([]any)[0].(string); !strings.HasPrefix(warning, "refused, generator-bound (3 of 3 trials): ") {
		t.Errorf("first warning of an invalid cell: %s", warning)
	}
	if unmeasured := find("rest", 64, 1); unmeasured["server_cpu_us"] != nil || unmeasured["throughput_rps"] == nil {
		t.Errorf("CPU time that was not measured is %v, throughput %v", unmeasured["server_cpu_us"], unmeasured["throughput_rps"])
	}
}

func TestObjectOfLoads(t *testing.T) {
	object := decoded(t, fixtureLoads(t))
	scalings := object["scalings"].([]any)
	shared, pool := scalings[0].(map[string]any), scalings[1].(map[string]any)
	at := func(o map[string]any, path ...string) any {
		for _, name := range path[:len(path)-1] {
			o = o[name].(map[string]any)
		}
		return o[path[len(path)-1]]
	}
	byModel := map[string]map[string]any{}
	for _, c := range object["cells"].([]any) {
		if cell := c.(map[string]any); cell["variant"] == "grpc" {
			byModel[at(cell, "load", "model").(string)] = cell
		}
	}
	search := byModel["search"]
	for what, c := range map[string]struct{ got, want any }{
		"one connection is named":            {at(shared, "diagnosis", "bottleneck"), "connection"},
		"the better one":                     {at(shared, "diagnosis", "better"), "grpc:conn=pool:4"},
		"in a sentence":                      {strings.Contains(at(shared, "diagnosis", "text").(string), "one connection serialises 48 callers in the client's writer: use grpc:conn=pool:4"), true},
		"what was not measured":              {at(shared, "diagnosis", "blocked_share"), nil},
		"the law's peak":                     {at(shared, "law", "peak"), 31.0},
		"no law":                             {pool["law"], nil},
		"a point without a law":              {pool["points"].([]any)[0].(map[string]any)["law_rps"], nil},
		"the ideal":                          {pool["points"].([]any)[1].(map[string]any)["ideal_rps"], 22_000.0},
		"the rate that was kept":             {at(search, "search", "kept_rps"), 4000.0},
		"its interval":                       {at(search, "intervals", "search.kept_rps", "low"), 3760.0},
		"the knee":                           {at(search, "search", "knee", "low_rps"), 4000.0},
		"the knee's confidence":              {at(search, "search", "knee", "confidence"), 0.95},
		"a step that missed":                 {at(search, "search", "steps").([]any)[13].(map[string]any)["kept"], false},
		"a burst's drain":                    {byModel["burst"]["drain_us"], 250_000.0},
		"the drain of what is not a burst":   {search["drain_us"], nil},
		"the search of what is not a search": {byModel["burst"]["search"], nil},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
}

func TestNotANumberIsNull(t *testing.T) {
	got, err := encode([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, 1.5}, forPrograms)
	if err != nil || string(got) != "[null,null,null,0,1.5]" {
		t.Errorf("%s, %v", got, err)
	}
	figures := struct {
		Zero    matrix.Figure  `json:"zero"`
		Unknown *matrix.Figure `json:"unknown"`
	}{}
	got, err = encode(&figures, forPrograms)
	if err != nil || string(got) != `{"zero":0,"unknown":null,"intervals":{}}` {
		t.Errorf("%s, %v", got, err)
	}
}

func decoded(t *testing.T, run *Run) map[string]any {
	t.Helper()
	var out bytes.Buffer
	if err := WriteJSON(&out, run); err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(out.Bytes(), &object); err != nil {
		t.Fatal(err)
	}
	return object
}
