package advice

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/curves"
	"wirelab.dev/internal/judge/analysis/matrix"
)

var update = flag.Bool("update", false, "write the golden texts anew")

// golden holds the answer and the advice on a summary against a text that somebody has read.
func golden(t *testing.T, name string, s *analysis.Summary) {
	t.Helper()
	lines := Answer(s)
	wantShort(t, lines)
	got := strings.Join(append(lines, ""), "\n") + "\n" + strings.Join(Advise(s), "\n\n") + "\n"
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got\n%s", file, got)
	}
	if n := len(Advise(s)); n > 14 {
		t.Errorf("%d sentences are too many", n)
	}
}

func TestUsualComparison(t *testing.T) {
	s := &analysis.Summary{}
	usual().addTo(s)
	for _, bytes := range []int{64, 4096} {
		s.Knees = append(s.Knees,
			knee("tcp", bytes, curves.KneeOfThroughput, 16, ""), knee("rest", bytes, curves.KneeOfThroughput, 16, ""),
			knee("grpc", bytes, curves.KneeOfThroughput, 0, "throughput still grows at 200 clients, the most with 3 valid trials"),
			knee("rest", bytes, curves.KneeOfTail, 0, "P99/P50 does not grow with the number of clients"))
	}
	s.Knees = append(s.Knees, knee("tcp", 4096, curves.KneeOfTail, 100, ""))
	for _, v := range []string{"tcp", "rest", "grpc"} {
		s.WarmUps = append(s.WarmUps, curves.WarmUpNeed{
			Part: "compare", Variant: v, Payload: record.Payload{RequestBytes: 64, ResponseBytes: 64}, Clients: 1, Trials: 3, Settled: 2 + len(v)%3%2,
			Needed: &matrix.Figure{Value: 30 * float64(len(v))}, NeededCalls: &matrix.Figure{Value: 1234 * float64(len(v))},
			FirstOver: &matrix.Figure{Value: 1.25},
		})
	}
	golden(t, "usual", s)
}

// A point that was not found may exist all the same.
func TestNoKneeWasFound(t *testing.T) {
	s := &analysis.Summary{}
	usual().addTo(s)
	s.Knees = []curves.Knee{
		knee("tcp", 64, curves.KneeOfThroughput, 0, "no bend stands out"),
		knee("tcp", 64, curves.KneeOfTail, 0, "P99/P50 does not grow with the number of clients"),
	}
	text := strings.Join(Advise(s), "\n")
	for _, want := range []string{
		"No point was found where throughput stops growing: no bend stands out (tcp at 64 B).",
		"No point was found where P99/P50 begins to grow: P99/P50 does not grow with the number of clients (tcp at 64 B).",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want\n%s\nin\n%s", want, text)
		}
	}
	s.Knees[0].Points, s.Knees[1].Points = 4, 3
	want := "No knee found, because a knee needs 5 numbers of clients with three valid trials each."
	if text := strings.Join(Advise(s), "\n"); !strings.Contains(text, want) {
		t.Errorf("want\n%s\nin\n%s", want, text)
	}
}

func TestNoConcurrencyHasEnoughTrials(t *testing.T) {
	s := &analysis.Summary{}
	usual().addTo(s)
	s.Knees = []curves.Knee{knee("tcp", 64, curves.KneeOfThroughput, 0, "")}
	s.Knees[0].Points = 0
	holds(t, strings.Join(Advise(s), "\n"), "needs 5 numbers of clients with three valid trials each.")
}

// study is a matrix without repeats beside a sweep and a limit with them.
func study() *analysis.Summary {
	s := &analysis.Summary{}
	whole := usual()
	whole.part, whole.trials, whole.sizes = "matrix", 1, both(64, 256, 1024, 4096, 65536)
	whole.addTo(s)
	dense := usual()
	dense.part, dense.clients, dense.sizes = "dense", []int{1}, both(512, 1024, 2048, 4096)
	dense.addTo(s)
	tail := usual()
	tail.part, tail.clients, tail.sizes = "tail", []int{500}, both(65536)
	tail.variants = []string{"tcp", "tcp:buffers=pooled"}
	tail.mean = func(v string, _ rank.Point) float64 {
		return map[string]float64{"tcp": 90_000, "tcp:buffers=pooled": 20_000}[v]
	}
	tail.p99 = func(v string, _ rank.Point) float64 {
		return map[string]float64{"tcp": 1_040_000, "tcp:buffers=pooled": 35_000}[v]
	}
	tail.addTo(s)
	figure := dense.figure
	s.Crossovers = []curves.Crossover{
		{Part: "dense", A: "rest", B: "grpc", Clients: 1, Bytes: matrix.Figure{Value: 2600, Interval: &matrix.Interval{Low: 2048, High: 4096}}, Kind: "gradual"},
		{Part: "dense", A: "tcp", B: "rest", Clients: 1, Bytes: matrix.Figure{Value: 3000}, Kind: "indistinct"},
	}
	s.Limits = []compare.LimitEffect{{
		Part: "tail", Without: "tcp", With: "tcp:inflight=50", Payload: record.Payload{RequestBytes: 65536, ResponseBytes: 65536}, Clients: 500, Limit: 50,
		ThroughputRatio: figure(0.98), MeanServiceRatio: figure(0.11), MeanResponseRatio: figure(1.02),
		TailWithout: 37.9, TailWithService: 11.6, TailWithResponse: 1.81, P99WithoutUS: 1_040_000, P99WithUS: 211_000,
	}}
	return s
}

func TestStudy(t *testing.T) { golden(t, "study", study()) }

func TestPartialRunSaysSoFirst(t *testing.T) {
	s := &analysis.Summary{}
	usual().addTo(s)
	s.Done, s.Planned = 40, 108
	if first := Advise(s)[0]; !strings.Contains(first, "partial: all figures come from 40 of 108") {
		t.Error(first)
	}
	if got := Advise(&analysis.Summary{Planned: 3}); len(got) != 1 || !strings.Contains(got[0], "None of 3 planned trials has ended") {
		t.Error(got)
	}
}

// spoil makes the cells that match invalid.
func spoil(s *analysis.Summary, match func(*matrix.Cell) bool) {
	for i := range s.Cells {
		c := &s.Cells[i]
		if !match(c) {
			continue
		}
		c.Valid = 0
		c.Findings = []matrix.Finding{{Name: "generator-bound", Level: record.Invalid, Trials: c.Trials, Detail: "the figure is the client's"}}
		s.Invalid += c.Trials
		s.Comparisons = slices.DeleteFunc(s.Comparisons, func(o compare.Comparison) bool {
			return (o.A == c.Variant || o.B == c.Variant) && o.Clients == c.Clients && o.RequestBytes == c.RequestBytes
		})
	}
}

func TestNothingValid(t *testing.T) {
	s := &analysis.Summary{}
	usual().addTo(s)
	spoil(s, func(*matrix.Cell) bool { return true })
	golden(t, "invalid", s)
}

func TestInvalidWhereItMattersComesFirst(t *testing.T) {
	s := &analysis.Summary{}
	usual().addTo(s)
	spoil(s, func(c *matrix.Cell) bool { return c.Variant == "tcp" && c.Clients == 200 })
	said := Advise(s)
	if !strings.Contains(said[0], "Cells without a valid trial: tcp at 64 B with 200 clients") {
		t.Errorf("first: %s", said[0])
	}
	if told := regexp.MustCompile(`200 clients: [^.]*tcp [0-9]`); told.MatchString(strings.Join(said[1:], "\n")) {
		t.Errorf("an invalid cell is advised on:\n%s", strings.Join(said, "\n"))
	}
	elsewhere := &analysis.Summary{}
	usual().addTo(elsewhere)
	spoil(elsewhere, func(c *matrix.Cell) bool { return c.Clients == 16 })
	if first := Advise(elsewhere)[0]; !strings.HasPrefix(first, "Certain: tcp is fastest") {
		t.Errorf("first: %s", first)
	}
}

// What the verdicts leave open is not claimed.
func TestNoClaimWithoutAVerdict(t *testing.T) {
	near := usual()
	near.mean = func(variant string, _ rank.Point) float64 { return 100 + 2*float64(len(variant)) }
	near.p99 = near.mean
	once := usual()
	once.trials = 1
	for name, y := range map[string]sampleRun{"near": near, "once": once} {
		s := &analysis.Summary{}
		y.addTo(s)
		// All 12 points together show which is ahead, but no point does.
		text := strings.Join(append(Advise(s), Answer(s)...), "\n")
		holds(t, text, "Likely: tcp is fastest (lowest mean at all 12 points, ", "; proven at none).")
		holdsNone(t, text, "Certain", "slower", "equal within")
		if do := lastLine(Answer(s), "Do: "); (name == "once") == strings.Contains(do, "choose") {
			t.Errorf("%s: %s", name, do) // nothing without an interval is recommended
		}
	}
}

func TestOneVariantIsOnlyDescribed(t *testing.T) {
	y := usual()
	y.variants = []string{"tcp"}
	s := &analysis.Summary{}
	y.addTo(s)
	golden(t, "alone", s)
}

func TestNumber(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0", 0.75: "0.75", 1.304: "1.3", 45.23: "45.2", 999.4: "999", 999.7: "1,000", 81_234: "81,200", 1_234_567: "1,230,000", -2284: "-2,280",
	} {
		if got := units.Number(value); got != want {
			t.Errorf("%v is shown as %s, want %s", value, got, want)
		}
	}
}

// A variant whose calls another program made measures wirelab's own client. It is
// never recommended, even if it is the fastest.
func TestForeignClientIsNoChoice(t *testing.T) {
	s := &analysis.Summary{}
	run := usual()
	run.variants = append(run.variants, "grpc:caller=h2load")
	mean := run.mean
	run.mean = func(v string, at rank.Point) float64 {
		if v == "grpc:caller=h2load" {
			return 1
		}
		return mean(v, at)
	}
	run.p99 = run.mean
	run.addTo(s)
	for i := range s.Cells {
		s.Cells[i].ForeignClient = s.Cells[i].Variant == "grpc:caller=h2load"
	}
	for _, text := range Advise(s) {
		if strings.Contains(text, "h2load") {
			t.Error(text)
		}
	}
}
