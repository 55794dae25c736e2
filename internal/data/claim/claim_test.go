package claim

import (
	"maps"
	"math"
	"os"
	"strings"
	"testing"
)

// table is figures by name and cell; sizes and clients are fixed.
type table map[Need]float64

func (t table) Figure(name string, of Cell) float64 {
	if of.Bytes == Least {
		of.Bytes = 64
	}
	if of.Clients == Least {
		of.Clients = 1
	}
	if value, has := t[Need{name, of}]; has {
		return value
	}
	return math.NaN()
}
func (table) Sizes(Cell) []int   { return []int{64, 1024, 4096, 16384} }
func (table) Clients(Cell) []int { return []int{1, 10, 100} }

// measured has two lines over sizes, which cross between 1 and 4 KiB, and one over clients.
func measured() table {
	all := table{}
	for i, size := range (table{}).Sizes(Cell{}) {
		all[Need{"mean", Cell{"sizes", "a", size, 1}}] = []float64{10, 20, 80, 320}[i]
		all[Need{"mean", Cell{"sizes", "b", size, 1}}] = []float64{40, 40, 40, 40}[i]
	}
	for i, clients := range (table{}).Clients(Cell{}) {
		all[Need{"throughput", Cell{"load", "a", 64, clients}}] = []float64{100, 800, 1000}[i]
		all[Need{"throughput", Cell{"load", "b", 64, clients}}] = []float64{50, 500, 900}[i]
	}
	return all
}

func TestEvaluate(t *testing.T) {
	for _, test := range []struct {
		text, part string
		want       float64
		reason     string
	}{
		{text: `ratio("mean", "a", "b", 64, 1)`, want: 0.25},
		{text: `ratio("mean", "a", "b")`, want: 0.25},
		{text: `figure("mean", "a", 4*KiB) / figure("mean", "a", 1*KiB)`, want: 4},
		{text: `crossover(by_size("mean", "a"), by_size("mean", "b"))`, want: 2048},
		{text: `crossover(by_size("mean", "b"), by_size("mean", "a"))`, reason: "the first line never overtakes the second"},
		{text: `crossover(by_size("mean", "a"), by_size("mean", "a"))`, reason: "the first line never overtakes the second"},
		{text: `monotone(by_size("mean", "a"))`, want: 2},
		{text: `step(by_size("mean", "a"), 64, 16*KiB)`, want: 32},
		{text: `step(by_size("mean", "a"), 64, 65)`, reason: "the line has no point at 65"},
		{text: `within(figure("mean", "a"), 8, 12)`, want: 1.2},
		{text: `within(figure("mean", "a"), 20, 40)`, want: 0.5},
		{text: `part("load").ratio("throughput", "a", "b")`, want: 2},
		{text: `knee(by_clients("throughput", "a"))`, part: "load", want: math.Exp(math.Log(10) + math.Log(10)/2)},
		{text: `converges(by_clients("throughput", "a"), by_clients("throughput", "b"))`, part: "load", want: 2 / (10.0 / 9)},
		{text: `max(figure("mean", "a"), figure("mean", "b"))`, want: 40},
		{text: `ratio("p99", "a", "b", 64, 1)`, reason: "no p99 of a in sizes, 64 B, 1 client"},
		{text: `figure("mean", "a") - 10`}, // no positive number
	} {
		if test.part == "" {
			test.part = "sizes"
		}
		e, err := Parse(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		got := e.Evaluate(test.part, measured())
		if test.want == 0 {
			if !math.IsNaN(got.Number) || got.Reason != test.reason {
				t.Errorf("%s is %v (%q), want nothing, because %q", test.text, got.Number, got.Reason, test.reason)
			}
		} else if math.Abs(got.Number/test.want-1) > 1e-9 {
			t.Errorf("%s is %v (%q), want %v", test.text, got.Number, got.Reason, test.want)
		}
	}
}

// A sweep with a spoiled trial still crosses, and one with many does not tell.
func TestCrossoverOfASweepWithHoles(t *testing.T) {
	e, err := Parse(`crossover(by_size("mean", "a"), by_size("mean", "b"))`)
	if err != nil {
		t.Fatal(err)
	}
	all := measured()
	delete(all, Need{"mean", Cell{"sizes", "a", 64, 1}})
	if got := e.Evaluate("sizes", all); math.Abs(got.Number/2048-1) > 1e-9 {
		t.Errorf("with three of four points: %+v", got)
	}
	delete(all, Need{"mean", Cell{"sizes", "b", 16384, 1}})
	if got := e.Evaluate("sizes", all); !math.IsNaN(got.Number) || !got.Missing || got.Reason != "no mean of a in sizes, 64 B" {
		t.Errorf("with two of four points: %+v", got)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for text, says := range map[string]string{
		`ratio("mean", "a")`:        "not enough arguments",
		`raito("mean", "a", "b")`:   "unknown name raito",
		`ratio("mean", "a", "b"`:    "unexpected token",
		`by_size("mean", "a")`:      "expected float64",
		`it`:                        "unknown name it",
		`ratio("mean", "a", 1, 64)`: "cannot use",
		`"a"`:                       "expected float64",
		``:                          "unexpected token",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line that says %q", text, err, says)
		}
	}
}

func TestNeeds(t *testing.T) {
	e, err := Parse(`crossover(by_size("mean", "a", 1), by_size("mean", "b", 1)) / ratio("p99", "b", "a", 64, 10)`)
	if err != nil {
		t.Fatal(err)
	}
	needs, err := e.Needs("sizes", table{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[Need]bool{}
	for _, need := range needs {
		got[need] = true
	}
	want := map[Need]bool{{"p99", Cell{"sizes", "a", 64, 10}}: true, {"p99", Cell{"sizes", "b", 64, 10}}: true}
	for _, size := range (table{}).Sizes(Cell{}) {
		want[Need{"mean", Cell{"sizes", "a", size, 1}}] = true
		want[Need{"mean", Cell{"sizes", "b", size, 1}}] = true
	}
	if !maps.Equal(got, want) || len(needs) != len(want) {
		t.Errorf("needs %v\nwant  %v", got, want)
	}
}

const published = `table,stack,mode,size_bytes,concurrency,metric,value,unit,note
latency,tcp,reuse,64,1,mean,20,us,
latency,rest,reuse,64,1,mean,38,us,
latency,rest,reuse,64,10,mean,145,us,
semaphore,tcp,reuse,,500,tail,121,ratio,before
semaphore,tcp,reuse,,500,tail,18,ratio,50 in flight
sweep,tcp,reuse,,1-48,mean,2-3,us,
syscalls,grpc,reuse,,,futex,41,ratio,inferred: upper end of a range
`

func TestCited(t *testing.T) {
	table, err := ReadPublishedTable(strings.NewReader(published))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]float64{
		`cited("latency", "rest", "mean", 64, 1) / cited("latency", "tcp", "mean")`:                       1.9,
		`cited("semaphore", "tcp", "tail", "before") / cited("semaphore", "tcp", "tail", "50 in flight")`: 121.0 / 18,
	} {
		if got, _, err := table.Evaluate(text); err != nil || math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]bool{`cited("latency", "tcp", "mean")`: false, `1 + cited("syscalls", "grpc", "futex")`: true} {
		if _, inferred, err := table.Evaluate(text); err != nil || inferred != want {
			t.Errorf("%s is inferred: %v, %v; want %v", text, inferred, err, want)
		}
	}
	for text, says := range map[string]string{
		`cited("latency", "rest", "mean")`:    "2 published figures",
		`cited("latency", "rust", "mean", 1)`: "0 published figures",
		`cited("sweep", "tcp", "mean")`:       "not a number",
		`ratio("mean", "a", "b")`:             "unknown name ratio",
	} {
		if _, _, err := table.Evaluate(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that says %q", text, err, says)
		}
	}
	if _, err := ReadPublishedTable(strings.NewReader("table,stack\n")); err == nil || !strings.Contains(err.Error(), `no column "mode"`) {
		t.Errorf("without columns: %v", err)
	}
}

// The page that explains claims has every figure and function.
func TestPageNamesAll(t *testing.T) {
	page, err := os.ReadFile("../../../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, says := range FigureDescriptions {
		if line := "| `" + name + "` | " + says + " |"; !strings.Contains(string(page), line) {
			t.Errorf("docs/scenarios.md has no line %q", line)
		}
	}
	for name := range environment("", nil) {
		if !strings.Contains(string(page), "`"+name+"(") && !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/scenarios.md does not explain %s", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`ratio("mean", "a", "b", 64, 1)`)
	f.Add(`crossover(by_size("mean", "a"), by_size("mean", "b"))`)
	f.Add(`part("load").knee(by_clients("throughput", "a"))`)
	f.Fuzz(func(_ *testing.T, text string) {
		if e, err := Parse(text); err == nil {
			e.Evaluate("sizes", measured())
			_, _ = e.Needs("sizes", table{})
		}
	})
}

func FuzzReadCited(f *testing.F) {
	f.Add(published)
	f.Fuzz(func(_ *testing.T, text string) {
		if table, err := ReadPublishedTable(strings.NewReader(text)); err == nil {
			_, _, _ = table.Evaluate(`cited("latency", "rest", "mean", 64, 1)`)
		}
	})
}
