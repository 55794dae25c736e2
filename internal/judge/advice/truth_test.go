package advice

import (
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

// advised is the advice on a run, a sentence a line.
func advised(y sampleRun) string {
	s := &analysis.Summary{}
	y.addTo(s)
	return strings.Join(Advise(s), "\n")
}

func holds(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("want\n%s\nin\n%s", want, text)
		}
	}
}

func holdsNone(t *testing.T, text string, falsehoods ...string) {
	t.Helper()
	for _, falsehood := range falsehoods {
		if strings.Contains(text, falsehood) {
			t.Errorf("%q in\n%s", falsehood, text)
		}
	}
}

// alike is two variants between which nothing differs.
func alike() sampleRun {
	y := usual()
	y.variants = []string{"tcp", "rest"}
	y.mean = func(string, rank.Point) float64 { return 100 }
	y.p99 = y.mean
	return y
}

// A cell of 64 B with a response of 256 KiB is not that of 64 B.
func TestBothSizesAreNamed(t *testing.T) {
	y := usual()
	y.sizes, y.clients = []record.Payload{{RequestBytes: 64, ResponseBytes: 64}, {RequestBytes: 64, ResponseBytes: 262144}}, []int{10}
	y.mean = func(variant string, at rank.Point) float64 {
		if (variant == "tcp") == (at.Size.ResponseBytes == 64) {
			return 1000
		}
		return 4670
	}
	y.p99 = y.mean
	text := advised(y)
	holds(t, text,
		"64 B, 10 clients: tcp 1 ms; rest 4.67× slower (",
		"64 B → 256 KiB, 10 clients: rest 1 ms; grpc 1× equal within 5 % (",
		"Certain: at 64 B tcp is cheapest, 4.7 times before the next. Certain: at 64 B → 256 KiB rest and grpc are cheapest, and equal within 5 %.",
		"P99, 64 B, 10 clients: tcp 1 ms; ",
	)
	holdsNone(t, text, "at both sizes")

	y.sizes = []record.Payload{{RequestBytes: 64, ResponseBytes: 65536}, {RequestBytes: 32768, ResponseBytes: 32768}, {RequestBytes: 65536, ResponseBytes: 64}}
	holds(t, advised(y), "Certain: at 64 B → 64 KiB and 32 KiB rest and grpc are cheapest, and equal within 5 % at both points. Certain: at 64 KiB → 64 B tcp is cheapest, ")
}

// Where one variant alone has a figure, nothing is compared.
func TestTheOnlyFigureIsNotInDoubt(t *testing.T) {
	s := &analysis.Summary{}
	usual().addTo(s)
	spoil(s, func(c *matrix.Cell) bool { return c.Variant != "tcp" && c.RequestBytes == 4096 && c.Clients == 200 })
	text := strings.Join(Advise(s), "\n")
	holds(t, text, "fastest at 10 of 11 points", "4 KiB, 100 clients: tcp 313 µs")
	holdsNone(t, text, "4 KiB, 200 clients: tcp")
}

func TestKneesAndLimitsNameBothSizes(t *testing.T) {
	s := &analysis.Summary{}
	usual().addTo(s)
	s.Knees = []curves.Knee{knee("tcp", 64, curves.KneeOfThroughput, 16, "")}
	s.Knees[0].ResponseBytes = 4096
	s.Limits = []compare.LimitEffect{{Without: "tcp", Payload: record.Payload{RequestBytes: 64, ResponseBytes: 4096}, Clients: 500, Limit: 50}}
	holds(t, strings.Join(Advise(s), "\n"), "for tcp at 64 B → 4 KiB", "on tcp (64 B → 4 KiB, 500 clients)")
}

// Equal times do not make a choice open where one variant takes three times the CPU.
func TestCPUTimeIsAReasonToChoose(t *testing.T) {
	y := alike()
	y.cpu = func(variant string, _ rank.Point) float64 { return map[string]float64{"tcp": 10, "rest": 30}[variant] }
	text := advised(y)
	holds(t, text,
		"Certain: tcp and rest are equal within 5 % in P99 at all 12 points.",
		"Certain: tcp is cheapest at all 12 points, 3.0 times before the next.",
		"CPU time, 64 B, 1 client: tcp 5 µs + 5 µs (client + server); rest 3× more (")
	holdsNone(t, text, "choose by other merits")

	y.cpu = nil
	holds(t, advised(y), "Certain: tcp and rest are equal within 5 % in CPU time at all 12 points.")
}

// The margin that the run supports stands in lead, lines, advice and what to do.
func TestEqualityNamesTheRunsMargin(t *testing.T) {
	s := &analysis.Summary{}
	alike().addTo(s)
	for i := range s.Comparisons {
		s.Comparisons[i].Margin = 0.02
	}
	text := strings.Join(append(Answer(s), Advise(s)...), "\n")
	holds(t, text, "Certain: tcp and rest are equal within 2 % in mean at all 12 points.", "rest 1× equal within 2 % (", "Do: choose any of them (equal within 2 %).")
	holdsNone(t, text, "within 5 %")
	if margin := rank.MainLeads(s)[0].Margin; margin != 0.02 {
		t.Errorf("the lead's margin is %v", margin)
	}
}

// Nothing is recommended that has too few trials, and nothing is called equal that is undecided.
func TestOnlyWhatIsKnownIsRecommended(t *testing.T) {
	y := usual()
	y.sizes, y.clients = both(64), []int{16}
	s := &analysis.Summary{}
	y.addTo(s)
	for i := range s.Comparisons { // grpc, the slowest, has too few valid trials
		if c := &s.Comparisons[i]; c.B == "grpc" {
			c.Verdict, c.Ratio.Interval, c.Pairs = compare.Undecided, nil, 2
		}
	}
	do := lastLine(Answer(s), "Do: ")
	holds(t, do, "take more repeats")
	holdsNone(t, do, "grpc")

	y.variants = []string{"tcp", "rest"}
	y.mean = func(variant string, _ rank.Point) float64 {
		return map[string]float64{"tcp": 100, "rest": 101.5}[variant]
	}
	s = &analysis.Summary{}
	y.addTo(s) // the CPU time is decided, the mean is not
	for i := range s.Comparisons {
		if c := &s.Comparisons[i]; c.Metric == matrix.CPU {
			c.Verdict = compare.Less
		}
	}
	do = lastLine(Answer(s), "Do: ")
	holds(t, do, "take more repeats: no variant is proven best")
	holdsNone(t, do, "any")
}

// lastLine returns the last line with the prefix.
func lastLine(lines []string, prefix string) (last string) {
	for _, line := range lines {
		if strings.HasPrefix(line, prefix) {
			last = line
		}
	}
	return last
}

// Of two that do not differ, none costs least.
func TestNoneOfEqualsCostsLeast(t *testing.T) {
	for name, ratio := range map[string]float64{"equal within 5 %": 1.005, "undecided": 1.05} {
		y := alike()
		y.cpu = func(variant string, _ rank.Point) float64 {
			return map[string]float64{"tcp": 10, "rest": 10 * ratio}[variant]
		}
		text := advised(y)
		holds(t, text, "tcp 5 µs + 5 µs (client + server); rest "+units.Number(ratio)+"× "+name)
		holdsNone(t, text, "Certain: tcp is cheapest")
	}
}

// Nobody looks for crossovers along sizes that differ between the directions.
func TestOnlyCrossoversThatWereSoughtAreDenied(t *testing.T) {
	y := usual()
	y.sizes, y.clients = []record.Payload{{RequestBytes: 64, ResponseBytes: 64}, {RequestBytes: 64, ResponseBytes: 640}, {RequestBytes: 64, ResponseBytes: 4096}, {RequestBytes: 64, ResponseBytes: 16384}, {RequestBytes: 64, ResponseBytes: 262144}}, []int{10}
	y.mean = func(variant string, at rank.Point) float64 {
		if variant == "tcp" && at.Size.ResponseBytes == 262144 {
			return 2100
		}
		return 100
	}
	holdsNone(t, advised(y), "overtake")

	y.sizes = both(64, 640, 4096, 16384)
	holds(t, advised(y), "As messages grow, no variant overtakes another at the sizes with enough trials.")
	y.trials = 2
	holdsNone(t, advised(y), "overtake")
}

// The wait for the permit may be counted or not; who else counts how is not known.
func TestALimitIsComparedWithNobodyElse(t *testing.T) {
	holdsNone(t, strings.Join(Advise(study()), "\n"), "published study")
}

// Knees with intervals of their own are not one place.
func TestKneesKeepTheirIntervals(t *testing.T) {
	s := &analysis.Summary{}
	usual().addTo(s)
	s.Knees = []curves.Knee{knee("tcp", 64, curves.KneeOfThroughput, 16, ""), knee("rest", 64, curves.KneeOfThroughput, 16, ""), knee("grpc", 64, curves.KneeOfThroughput, 16, "")}
	s.Knees[1].Clients.Interval.Low, s.Knees[2].Clients.Interval.High = 4, 64
	holds(t, strings.Join(Advise(s), "\n"),
		"at about 16 clients (8 to 32) for tcp at 64 B; at about 16 clients (4 to 32) for rest at 64 B; at about 16 clients (8 to 64) for grpc at 64 B")
}
