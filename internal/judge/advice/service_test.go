package advice

import (
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// serving returns the summary of a service, with one cell for each number of clients. Some
// of its calls failed.
func serving(failed int64, numbers ...int) *analysis.Summary {
	s := &analysis.Summary{Planned: len(numbers), Done: len(numbers)}
	for _, n := range numbers {
		s.Cells = append(s.Cells, matrix.Cell{
			Cell:   record.Cell{Part: "load", Stack: record.ServiceStack, Variant: "service:wire=h2", Place: record.Place{Workload: "GET /items", Clients: n}, Load: record.Load{Model: "closed"}},
			Trials: 1, Valid: 1, Throughput: matrix.Figure{Value: 7000},
			Service:   matrix.Latencies{Mean: matrix.Figure{Value: 1500}, P50: matrix.Figure{Value: 1420}, P99: matrix.Figure{Value: 2890}},
			ClientCPU: &matrix.Figure{Value: 42}, ServerCPU: &matrix.Figure{Value: 35},
			Survival: matrix.Survival{Trials: 1, Requests: 1000, Succeeded: 1000 - failed, Failures: []record.ErrorCount{{Code: "500", Count: failed, Example: "the server answered 500 Internal Server Error"}}},
		})
	}
	return s
}

func TestTheFirstLinesSayHowAServiceStands(t *testing.T) {
	if got, want := Answer(serving(0, 10))[0], "10 clients: 7,000/s succeeded, half within 1.42 ms, 99 of 100 within 2.89 ms; none failed."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	failing := strings.Join(Answer(serving(20, 10)), "\n")
	if !strings.Contains(failing, "2 % of the calls failed, mostly with: the server answered 500 Internal Server Error") || strings.Contains(failing, "none failed") {
		t.Errorf("of a service that fails:\n%s", failing)
	}
	stalling := serving(0, 10)
	for n := range 40 {
		point := matrix.CoursePoint{Seconds: 0.05 + 0.1*float64(n), Throughput: 7000}
		if n%10 < 2 {
			point.Throughput = 0
		}
		stalling.Cells[0].Course = append(stalling.Cells[0].Course, point)
	}
	if text := strings.Join(Answer(stalling), "\n"); !strings.Contains(text, "The service answered almost no calls 4 times, the longest for about 200 ms.") {
		t.Errorf("of a service that stands still:\n%s", text)
	}
	stalling.Cells[0].Findings = []matrix.Finding{{Name: "gaps", Level: record.Warning, Trials: 1}}
	if text := strings.Join(Answer(stalling), "\n"); !strings.Contains(text, "about 200 ms; other programs may be the cause.") {
		t.Errorf("of a service that stands still on a busy machine:\n%s", text)
	}
	outage := serving(20, 10)
	outage.Cells[0].Course = stalling.Cells[0].Course
	outage.Cells[0].Survival.Failures[0] = record.ErrorCount{Class: "refused", Count: 20, Example: "dial tcp 127.0.0.1:80: connect: connection refused"}
	for _, want := range []string{"The service answered almost no calls 4 times, the longest for about 200 ms, while it refused connections (clients then ask once a second, so few calls fail).", "2 % of the calls failed, mostly with: connection refused"} {
		if text := strings.Join(Answer(outage), "\n"); !strings.Contains(text, want) {
			t.Errorf("of an outage, want %q:\n%s", want, text)
		}
	}
	died := serving(20, 10)
	for n := range 40 { // it answers in the first second of four
		died.Cells[0].Course = append(died.Cells[0].Course, matrix.CoursePoint{Seconds: 0.05 + 0.1*float64(n), Throughput: map[bool]float64{true: 7000}[n < 10]})
	}
	if text := strings.Join(Answer(died), "\n"); !strings.Contains(text, "The service answered almost no calls once, for about 3 s.") {
		t.Errorf("of a service that ended:\n%s", text)
	}
	several := serving(20, 10)
	several.Cells[0].Survival.Failures[0].Count = 8
	if text := strings.Join(Answer(several), "\n"); !strings.Contains(text, "2 % of the calls failed, 40 % of these with: the server answered 500") {
		t.Errorf("of several failures:\n%s", text)
	}
	if text := strings.Join(Answer(serving(1, 10)), "\n"); !strings.Contains(text, "1 call failed, mostly with") {
		t.Errorf("of a single failure:\n%s", text)
	}
	refused := serving(0, 10)
	refused.Cells[0].Valid, refused.Cells[0].Refused, refused.Invalid = 0, 1, 1
	refused.Cells[0].Findings = []matrix.Finding{{Name: "neighbours", Level: record.Invalid, Trials: 1, Detail: "other processes took 75 % of the CPU time"}}
	refused.Others = &analysis.OtherPrograms{Share: 0.75, Programs: []analysis.OtherProgram{{Name: "cc1", Share: 0.4}, {Name: "rustc", Share: 0.3}}}
	if got, want := Answer(refused), "Noisy machine: other programs used 75 % of the CPUs (cc1 40 %, rustc 30 %). Counts stand; latencies may be too high: close them, or measure later."; len(got) != 1 || got[0] != want {
		t.Errorf("of a run that was refused: %q, want only %q", got, want)
	}
	refused.Cells[0].Findings[0] = matrix.Finding{Name: "bookkeeping", Level: record.Invalid, Trials: 1, Detail: "calls do not add up"}
	if got := Answer(refused)[0]; got != "Do not use these figures: calls do not add up" {
		t.Errorf("of a run with another fault: %q", got)
	}
}

func TestAServiceIsNamedByItsWire(t *testing.T) {
	s := serving(0, 1, 16)
	s.Cells[1].Bound = matrix.ByServerCPU
	text := strings.Join(Advise(s), "\n")
	if strings.Contains(text, "service:wire") || !strings.Contains(text, "h2") || !strings.Contains(text, "16 clients: 7,000/s") {
		t.Errorf("want h2, and each number of clients:\n%s", text)
	}
}

// Requests that cross the end of an idle connection are failures, and the service is named as the cause.
func TestIdleClosesAreNamed(t *testing.T) {
	s := serving(3, 4)
	if said := LoadRemarks(s); slices.ContainsFunc(said, func(line string) bool { return strings.Contains(line, "idle connections") }) {
		t.Errorf("other failures: %q", said)
	}
	s.Cells[0].Survival.Failures[0].Class = "idle-closed"
	want := "The service closes idle connections without saying so, and 3 requests failed for that: "
	if said := LoadRemarks(s); !slices.ContainsFunc(said, func(line string) bool { return strings.HasPrefix(line, want) }) {
		t.Errorf("got %q, want a line that begins with %q", said, want)
	}
}

// What probes did not observe of a load is said once for all probes, unless a warning of the run says it.
func TestUnobservedProcessesAreNamed(t *testing.T) {
	s := serving(0, 4)
	missing := []string{"the service: 192.0.2.1:80 is on another machine; run wirelab there", "cycles: not on this machine"}
	s.Insights = []insight.Insight{{Passes: []insight.Pass{{Probe: "syscalls", Missing: missing[:1]}, {Probe: "counters", Missing: missing}}}}
	s.Warnings = []string{"the probe counters cannot observe everything on this machine; missing: cycles: not on this machine"}
	want := "Not observed by --probe syscalls,counters: the service: 192.0.2.1:80 is on another machine; run wirelab there."
	if said := Unobserved(s); len(said) != 1 || said[0] != want {
		t.Errorf("got %q, want %q", said, want)
	}
	if said := LoadRemarks(s); !slices.Contains(said, want) {
		t.Errorf("the remarks %q lack %q", said, want)
	}
}
