package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/data/claim"
	"wirelab.dev/studies"
)

// words knows three stacks and one workload, as the program's own lists do.
var words = Vocabulary{
	Secure: func(v Variant) Variant { return v.With("tls", "on") },
	Published: func(name string) (*claim.PublishedTable, error) {
		text, err := studies.FS.ReadFile("published/" + name + ".csv")
		if err != nil {
			return nil, err
		}
		return claim.ReadPublishedTable(bytes.NewReader(text))
	},
	CheckVariant: func(v Variant, p Part) error {
		if v.Stack == "rest" && p.Workload == "talk" {
			return errors.New("rest has no bidirectional streams")
		}
		stacks := []string{"tcp", "rest", "grpc"}
		if !slices.Contains(stacks, v.Stack) {
			return fmt.Errorf("no stack %q; %s", v.Stack, spelling.Suggest(v.Stack, stacks))
		}
		for _, o := range v.Options {
			if !slices.Contains([]string{"inflight", "buffers", "gogc"}, o.Key) {
				return fmt.Errorf("stack %s has no option %q", v.Stack, o.Key)
			}
		}
		return nil
	},
	CheckWorkload: func(name string) error {
		if name != "echo" && name != "talk" && !strings.HasPrefix(name, "users") {
			return fmt.Errorf("no workload %q", name)
		}
		return nil
	},
	Sized: func(name string) bool { return name == "echo" },
	CheckPayload: func(p Part, payload Payload) error {
		name := p.Workload
		if name == "echo" && payload.Request <= 1<<24 || payload == (Payload{}) {
			return nil
		}
		return fmt.Errorf("%s carries up to 16 MiB if anything, not %v", name, payload)
	},
	CheckColumn: func(string) error { return nil },
}

func parseStudy(t testing.TB, name string) *Scenario {
	t.Helper()
	data, err := fs.ReadFile(studies.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(name, data, words)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKernelStudyMatrixIsThePublishedOne(t *testing.T) {
	matrix, err := parseStudy(t, "kernel-study.yaml").Only("matrix")
	if err != nil {
		t.Fatal(err)
	}
	if cells := len(matrix.cells()); cells != 75 {
		t.Errorf("%d cells, want 75", cells)
	}
	if samples := matrix.samples(); samples != 9_915_000 {
		t.Errorf("%d samples, want 9,915,000", samples)
	}
	for _, c := range matrix.cells() {
		if !c.Samples {
			t.Fatalf("%s does not keep its samples", c.key())
		}
	}
}

func TestKernelStudyParts(t *testing.T) {
	s := parseStudy(t, "kernel-study.yaml")
	var parts []string
	for _, p := range s.Parts {
		parts = append(parts, p.Name)
	}
	if want := []string{"matrix", "dense", "tail", "warm-up", "inside", "inside-many", "syscalls", "tail-one"}; !slices.Equal(parts, want) {
		t.Fatalf("parts %v, want %v", parts, want)
	}
	if n := len(s.Parts[1].Sizes); n != 13 {
		t.Errorf("the dense sweep has %d sizes, want 13", n)
	}
	if w := s.Parts[3].WarmUp; w != (WarmUp{}) {
		t.Errorf("the cold start warms up: %+v", w)
	}
}

func TestQuickIsATenthAndUpTo100Clients(t *testing.T) {
	s := parseStudy(t, "kernel-study.yaml")
	before, _ := json.Marshal(s)
	quick := s.Quick()
	if got := quick.Parts[0].Clients; !slices.Equal(got, []int{1, 10, 50, 100}) {
		t.Errorf("matrix clients %v, want 1 10 50 100", got)
	}
	if got := quick.Parts[2].Clients; !slices.Equal(got, []int{100}) {
		t.Errorf("tail clients %v, want 100: its 500 become 100", got)
	}
	for _, p := range quick.Parts {
		if p.Repeats != 1 {
			t.Errorf("part %s: %d repeats, want 1", p.Name, p.Repeats)
		}
	}
	if got := quick.Parts[0].Load.Requests; got != 100 {
		t.Errorf("%d requests, want 100", got)
	}
	if got := quick.Parts[3].Load.Duration.String(); got != "500ms" {
		t.Errorf("duration %s, want 500ms", got)
	}
	if after, _ := json.Marshal(s); string(before) != string(after) {
		t.Errorf("Quick changed the scenario it was called on:\n%s\n%s", before, after)
	}
	if !strings.HasSuffix(quick.Title, "(quick)") {
		t.Errorf("title %q does not say that it is quick", quick.Title)
	}
}

func TestOnly(t *testing.T) {
	s := parseStudy(t, "kernel-study.yaml")
	both, err := s.Only("tail", "matrix")
	if err != nil {
		t.Fatal(err)
	}
	if both.Parts[0].Name != "matrix" || both.Parts[1].Name != "tail" || len(both.Parts) != 2 {
		t.Errorf("parts %v, want matrix and tail in the file's order", both.Parts)
	}
	if matching, err := s.Only("ma*", "tail"); err != nil || len(matching.Parts) != 2 || matching.Parts[0].Name != "matrix" {
		t.Errorf("ma*, tail: parts %v, %v", matching.Parts, err)
	}
	for _, wrong := range [][]string{{"tial"}, {}, {"[tail"}, {"tail", "nothing*"}} {
		if _, err := s.Only(wrong...); err == nil || !strings.Contains(err.Error(), "tail") {
			t.Errorf("Only(%v): %v; want an error that names the parts", wrong, err)
		}
	}
}

func TestEachCellIsPlannedOnce(t *testing.T) {
	s := parseStudy(t, "kernel-study.yaml")
	seen := map[string]bool{}
	for _, c := range s.cells() {
		if seen[c.key()] {
			t.Errorf("two cells %s", c.key())
		}
		seen[c.key()] = true
	}
	for _, want := range []string{
		"matrix/tcp/echo/64 B/c=50", "dense/grpc/echo/3 KiB/c=1",
		"tail/tcp:buffers=pooled,inflight=50/echo/64 KiB/c=500",
	} {
		if !seen[want] {
			t.Errorf("no cell %s", want)
		}
	}
}

func TestOrderIsInBlocksAndFromTheSeed(t *testing.T) {
	s := parseStudy(t, "kernel-study.yaml")
	cells := s.Parts[1].cells()
	plan := Order(7, cells, nil, 3)
	if len(plan) != 3*len(cells) {
		t.Fatalf("%d trials, want %d", len(plan), 3*len(cells))
	}
	orders := map[string]bool{}
	for repeat := range 3 {
		block := plan[repeat*len(cells):][:len(cells)]
		seen, order := map[string]bool{}, ""
		for _, p := range block {
			if p.Repeat != repeat+1 {
				t.Fatalf("repeat %d in block %d", p.Repeat, repeat+1)
			}
			seen[p.Cell.key()] = true
			order += p.Cell.key() + "\n"
		}
		if len(seen) != len(cells) {
			t.Errorf("block %d holds %d of %d cells", repeat+1, len(seen), len(cells))
		}
		orders[order] = true
	}
	if len(orders) != 3 {
		t.Errorf("the three blocks have %d orders, want 3", len(orders))
	}
	if !reflect.DeepEqual(plan, Order(7, cells, nil, 3)) {
		t.Error("the same seed gave another order")
	}
	if reflect.DeepEqual(plan, Order(8, cells, nil, 3)) {
		t.Error("another seed gave the same order")
	}
}

// The order is part of what a run records: it must not change with the program.
func TestOrderIsPinned(t *testing.T) {
	var cells []Cell
	for n := range 6 {
		cells = append(cells, Cell{Clients: n})
	}
	var got []int
	for _, p := range Order(1, cells, nil, 2) {
		got = append(got, p.Cell.Clients)
	}
	if want := []int{1, 5, 4, 2, 0, 3, 1, 2, 5, 0, 4, 3}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestPlanOfAPartDoesNotDependOnTheOthers(t *testing.T) {
	s := parseStudy(t, "kernel-study.yaml")
	tail, err := s.Only("tail")
	if err != nil {
		t.Fatal(err)
	}
	whole := slices.DeleteFunc(s.Plan(), func(p PlannedCell) bool { return p.Cell.Part != "tail" })
	if alone := tail.Plan(); !reflect.DeepEqual(whole, alone) {
		t.Errorf("alone:\n%v\nas one of all:\n%v", alone, whole)
	}
}

func TestStarterIsSmall(t *testing.T) {
	s, err := Parse("starter.yaml", Starter(), words)
	if err != nil {
		t.Fatal(err)
	}
	// About a second a trial for starting and stopping, and up to a second
	// of warm-up.
	if trials := len(s.Plan()); trials > 25 {
		t.Errorf("%d trials do not fit into a minute", trials)
	}
}

func TestManualsExampleIsAScenarioFile(t *testing.T) {
	manual, err := os.ReadFile("../../../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(manual), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	if _, err := Parse("docs/scenarios.md", []byte(example), words); err != nil {
		t.Error(err)
	}
}

func TestJSONIsAScenarioFile(t *testing.T) {
	for name, s := range map[string]*Scenario{
		"study": parseStudy(t, "kernel-study.yaml"),
		"quick": parseStudy(t, "kernel-study.yaml").Quick(),
	} {
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("scenario.json", data, words)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(s, again) {
			t.Errorf("%s came back as\n%+v\nwant\n%+v", name, again, s)
		}
	}
}

func TestDefaults(t *testing.T) {
	s, err := Parse("f", []byte(`
version: 1
name: s
defaults: {stacks: [tcp], sizes: [64], samples: true, load: {model: open, rate: 10, duration: 2s}}
parts:
  - {name: a, clients: [1], samples: false}
  - {name: b, clients: [2], load: {model: closed, requests: 5}, repeats: 2, connection: "pool:3"}
`), words)
	if err != nil {
		t.Fatal(err)
	}
	a, b := s.Parts[0], s.Parts[1]
	if a.Samples || !b.Samples {
		t.Errorf("samples: a %v, b %v; want false and true", a.Samples, b.Samples)
	}
	if want := (Load{Model: Open, Rate: 10, Duration: 2e9, Arrivals: Poisson}); a.Load != want {
		t.Errorf("a's load %+v, want %+v", a.Load, want)
	}
	if want := (Load{Model: Closed, Requests: 5}); b.Load != want {
		t.Errorf("b's load %+v, want %+v: its own replaces the default whole", b.Load, want)
	}
	if a.Repeats != 1 || b.Repeats != 2 || a.Workload != "echo" || s.Seed != 1 {
		t.Errorf("repeats %d and %d, workload %q, seed %d", a.Repeats, b.Repeats, a.Workload, s.Seed)
	}
	if want := (Connection{Mode: Pool, Size: 3}); b.Connection != want {
		t.Errorf("connection %v, want %v", b.Connection, want)
	}
	if got := s.samples(); got != 20+2*2*5 {
		t.Errorf("%d samples, want 40", got)
	}
}

func TestWorkloadsAndTheirSizes(t *testing.T) {
	s, err := Parse("f", []byte(`
version: 1
name: s
defaults: {stacks: [tcp], clients: [1]}
parts:
  - {name: a, sizes: [64/4KiB, 64]}
  - {name: b, workload: "users:work=0s,op=get-user"}
`), words)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, c := range s.cells() {
		keys = append(keys, c.key())
	}
	want := []string{"a/tcp/echo/64 B/4 KiB/c=1", "a/tcp/echo/64 B/c=1", "b/tcp/users:op=get-user,work=0s/0 B/c=1"}
	if !slices.Equal(keys, want) {
		t.Errorf("cells %v, want %v", keys, want)
	}
}

// good is a file that each case below spoils in one place.
const good = `version: 1
name: s
defaults:
  stacks: [tcp, grpc]
parts:
  - name: a
    sizes: [64]
    clients: [1, 50]
`

func TestErrorsNameThePlaceAndTheCure(t *testing.T) {
	if _, err := Parse("s.yaml", []byte(good), words); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ from, to, at, says string }{
		{"    sizes", "    size", "7:5", `unknown key "size"; did you mean sizes?`},
		{"parts:", "pars:", "5:1", `unknown key "pars"; did you mean parts?`},
		{"defaults:", "clients:", "3:1", `unknown key "clients"`},
		{"[tcp, grpc]", "[tcp, gprc]", "4:17", `no stack "gprc"; did you mean grpc?`},
		{"[tcp, grpc]", "[tcp, tcp]", "4:17", "listed twice"},
		{"[tcp, grpc]", "[tcp:nagle=on]", "4:12", `no option "nagle"`},
		{"[tcp, grpc]", "[tcp:buffers=pooled,inflight=50]", "4:31", "into quotes"},
		{"[tcp, grpc]", "[Tcp]", "4:12", "lower-case"},
		{"[tcp, grpc]", "tcp", "4:11", "want a list"},
		{"[tcp, grpc]", "[]", "4:11", "matrix is empty"},
		{"[64]", "[64, 4XB]", "7:17", "want whole bytes"},
		{"[64]", "[1.5KiB]", "7:13", "want whole bytes"},
		{"[64]", "[64MiB]", "7:13", "up to 16 MiB"},
		{"[64]", "[64, 64B]", "7:17", "listed twice"},
		{"[64]", "[64/4KiB, 64/4096]", "7:22", "listed twice"},
		{"[64]", "[64/]", "7:13", "want whole bytes"},
		{"[1, 50]", "[1, 50]\n    workload: users", "7:13", "users carries up to"},
		{"[tcp, grpc]", "[tcp, rest]\n  workload: talk\n  sizes: [0]", "4:17", "no bidirectional"},
		{"[1, 50]", "[1, 0]", "8:18", "found 0"},
		{"[1, 50]", "[-2]", "8:15", "found -2"},
		{"[1, 50]", "[9999999999999999999]", "8:15", "want a whole number"},
		{"name: s", "name: s\nseed: -1", "3:7", "seed: want a whole number from 0"},
		{"[1, 50]", "[1.5]", "8:15", `want a whole number, found "1.5"`},
		{"[1, 50]", "[many]", "8:15", `want a number, found "many"`},
		{"[1, 50]", "", "8:5", "clients has no value"},
		{"    clients: [1, 50]\n", "", "6:5", "no clients"},
		{"[1, 50]", "[1, 50]\n    repeats: 0", "9:14", "repeats: want 1 or more, found 0"},
		{"[1, 50]", "[1, 50]\n    repeats: 5000", "6:5", "more than 10000 trials"},
		{"[1, 50]", "[1, 50]\n    samples: 7", "9:14", "samples: want true or false"},
		{"[1, 50]", "[1, 50]\n    connection: pool:0", "9:17", "whole number from 1"},
		{"[1, 50]", "[1, 50]\n    workload: ehco", "9:15", `no workload "ehco"`},
		{"[1, 50]", "[1, 50]\n    load: {model: closed}", "9:11", "one of requests"},
		{"[1, 50]", "[1, 50]\n    load: {model: closed, requests: 1, duration: 1s}", "9:11", "one of requests"},
		{"[1, 50]", "[1, 50]\n    load: {model: closed, requests: 1, rate: 9}", "9:46", "has no rate"},
		{"[1, 50]", "[1, 50]\n    load: {model: open, duration: 1s}", "9:11", "needs rate"},
		{"[1, 50]", "[1, 50]\n    load: {model: open, rate: 1, requests: 9}", "9:44", "an open loop has no requests"},
		{"[1, 50]", "[1, 50]\n    load: {model: open, rate: 1, duration: 1}", "9:44", "number and its unit"},
		{"[1, 50]", "[1, 50]\n    load: {model: open, rate: 1, duration: 1s, arrivals: bursty}", "9:58", "constant or poisson"},
		{"[1, 50]", "[1, 50]\n    load: {model: half-open}", "9:19", "want model: closed, open, "},
		{"[1, 50]", "[1, 50]\n    load: {model: burst}", "9:11", "a burst needs requests"},
		{"[1, 50]", "[1, 50]\n    load: {model: burst, requests: 5, duration: 1s}", "9:49", "a burst has no duration"},
		{"[1, 50]", "[1, 50]\n    load: {model: ramp, rate: 5, duration: 1s}", "9:11", "a ramp needs either to, the final rate, or stages"},
		{"[1, 50]", "[1, 50]\n    load: {model: ramp, rate: 5, to: -1, duration: 1s}", "9:38", "above 0"},
		{"[1, 50]", "[1, 50]\n    load: {model: search, goal: fast, duration: 1s}", "9:33", "as in p99<10ms"},
		{"[1, 50]", "[1, 50]\n    load: {model: sustained, duration: 1s}", "9:11", "needs rate"},
		{"[1, 50]", "[1, 50]\n    warm-up: {at-least: 5s}", "9:14", "is shorter than `at-least`"},
		{"[1, 50]", "[1, 50]\n  - name: a\n    sizes: [1]\n    clients: [1]", "9:11", "second part named"},
		{"[1, 50]", "[1, 50]\n    sizes: [1]", "9:5", "already defined"},
		{"[1, 50]", "[1, 50", "8:", ""},
		{"[1, 50]", "&x [1, 50]", "8:14", "anchors"},
		{"[1, 50]", "!!seq [1, 50]", "8:14", "tags"},
		{"version: 1", "version: 2", "1:10", "reads version 1, found \"2\""},
		{"version: 1\n", "", "1:1", "version is missing"},
		{"name: s", "name: My Study", "2:7", "lower-case"},
		{"name: s", "name: s\nquick: {requests: 2}", "3:19", "share"},
		{good, "", "1:1", "empty"},
		{good, "- 1", "1:1", "want keys and values"},
		{good, good + "---\n" + good, "10:1", "second YAML document"},
	} {
		data := strings.Replace(good, test.from, test.to, 1)
		_, err := Parse("s.yaml", []byte(data), words)
		var located *Error
		if !errors.As(err, &located) {
			t.Errorf("%q for %q: %v is no *Error", test.to, test.from, err)
			continue
		}
		if !strings.HasPrefix(err.Error(), "s.yaml:"+test.at) || !strings.Contains(located.Text, test.says) {
			t.Errorf("%q for %q:\n%v\nwant s.yaml:%s and %q", test.to, test.from, err, test.at, test.says)
		}
	}
}

func TestCheckOfAScenarioWithoutAFile(t *testing.T) {
	s := parseStudy(t, "kernel-study.yaml")
	if err := s.Check(words); err != nil {
		t.Error(err)
	}
	s.Parts[2].Clients = []int{0}
	if err := s.Check(words); err == nil || err.Error() != "clients: want 1 to 100000, found 0" {
		t.Errorf("0 clients: %v", err)
	}
}

func TestErrorShowsAnExcerpt(t *testing.T) {
	_, err := Parse("s.yaml", []byte(strings.Replace(good, "50", "0", 1)), words)
	const want = `s.yaml:8:18: clients: want 1 to 100000, found 0
    6 |   - name: a
    7 |     sizes: [64]
    8 |     clients: [1, 0]
      |                  ^`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// A run that looks at its result measures the trials of a longer plan, look by look.
func TestPlanLooks(t *testing.T) {
	s := &Scenario{Seed: 7, Parts: []Part{
		{Name: "once", Stacks: []Variant{{Stack: "a"}}, Sizes: []Payload{{}}, Clients: []int{1}, Repeats: 1},
		{Name: "few", Stacks: []Variant{{Stack: "a"}, {Stack: "b"}, {Stack: "c"}}, Sizes: []Payload{{}}, Clients: []int{1, 2}, Repeats: 2},
		{Name: "many", Stacks: []Variant{{Stack: "a"}, {Stack: "b"}}, Sizes: []Payload{{}}, Clients: []int{1}, Repeats: 6},
	}}
	plan := s.PlanLooks([]int{3, 5, 8}, func(_ int, c Cell) bool { return c.Part != "once" })
	for i, looks := range [][]int{{3}, {3, 5}} { // a resumed run begins as it did
		before := s.PlanLooks(looks, func(_ int, c Cell) bool { return c.Part != "once" })
		if want := []int{1 + 3*6 + 6*2, 1 + 5*6 + 6*2}[i]; len(before) != want || !reflect.DeepEqual(before, plan[:want]) {
			t.Errorf("after %v the plan is %d trials long, want %d, the first of the whole", looks, len(before), want)
		}
	}
	longer := *s
	longer.Parts = slices.Clone(s.Parts)
	longer.Parts[1].Repeats, longer.Parts[2].Repeats = 8, 8
	for _, part := range []string{"once", "few", "many"} {
		of := func(plan []PlannedCell) []PlannedCell {
			return slices.DeleteFunc(slices.Clone(plan), func(p PlannedCell) bool { return p.Cell.Part != part })
		}
		if got, want := of(plan), of(longer.Plan()); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d trials in another order than the %d of a plan with as many repeats", part, len(got), len(want))
		}
	}
}
