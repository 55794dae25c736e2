package advice

import (
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
)

func TestClaimsInWords(t *testing.T) {
	const find = `ratio("mean", "grpc:codec=vt1", "grpc")`
	claim := compare.Claim{Row: "F1", Says: "a codec takes a tenth off", Part: "unary", Find: find, ClaimedRatio: new(0.9), Ratio: &matrix.Figure{Value: 0.95, Interval: &matrix.Interval{Low: 0.94, High: 0.96}}, Outcome: compare.Smaller}
	grows, open, borderline, unmeasured, cause := claim, claim, claim, claim, claim
	grows.Says, grows.ClaimedRatio, grows.Outcome = "it grows", nil, compare.Compatible
	open.Ratio, open.Outcome = &matrix.Figure{Value: 0.8}, compare.Underpowered
	borderline.Outcome = compare.Underpowered
	unmeasured.Ratio, unmeasured.Outcome, unmeasured.Reason = nil, compare.Unmeasured, "no mean of grpc in unary"
	cause.Says, cause.But = "the codec causes it", "its own table says otherwise"
	s := &analysis.Summary{Results: analysis.Results{Claims: []compare.Claim{
		claim, grows, open, borderline, unmeasured, cause,
		{Says: "a file server is cheaper", Outcome: compare.Unmeasured, Unasked: true},
	}}}
	want := []string{
		"“a codec takes a tenth off” (F1): a smaller effect here than claimed: 0.95 (0.94 to 0.96), claimed 0.9×. Computed as " + find + " in unary.",
		"“it grows” (F1): compatible with what was measured here: 0.95 (0.94 to 0.96), claimed > 1×. Computed as " + find + " in unary.",
		"“a codec takes a tenth off” (F1): undecided here: 0.8, claimed 0.9×; three repeats or more may decide it. Computed as " + find + " in unary.",
		"“a codec takes a tenth off” (F1): undecided here: 0.95 (0.94 to 0.96), claimed 0.9×; it is so close to the limit between two answers that 10,000 repeats might not decide it. Computed as " + find + " in unary.",
		"“a codec takes a tenth off” (F1): not measured here: no mean of grpc in unary.",
		"“the codec causes it” (F1): a smaller effect here than claimed: 0.95 (0.94 to 0.96), claimed 0.9×; but its own table says otherwise. Computed as " + find + " in unary.",
		"Not judged, because only `run --yardstick` measures the yardstick: “a file server is cheaper”.",
	}
	got := claimSentences(s)
	if len(got) != len(want) {
		t.Fatalf("%d sentences, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
}

// A study that asks for levers names the one that moves a point the most.
func TestAStudyNamesItsLever(t *testing.T) {
	s := leversOf(leverOf("conns=4", compare.Faster, 0.9))
	best := leversOf(leverOf("gogc=400", compare.Faster, 0.6), leverOf("inflight=8", compare.Slower, 2)).Levers[0]
	best.RequestBytes, best.ResponseBytes, best.Clients = 64, 64, 50
	s.Levers = append(s.Levers, best, leversOf(leverOf("tls=on", compare.Undecided, 0.1)).Levers[0])
	s.Claims = []compare.Claim{{Says: "it", Outcome: compare.Underpowered, Pairs: 1}}
	if got, want := strings.Join(Answer(s), "\n"), "Lever: gogc=400: over grpc:gogc=10 at 64 B with 50 clients, calls take 0.6× (0.57 to 0.63) the time."; !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// A study leads with its measured figures, also after one trial; expressions and rows come later.
func TestStudyLeadsWithItsFigures(t *testing.T) {
	figure := func(name, variant string, clients int, value float64) compare.ClaimFigure {
		return compare.ClaimFigure{Figure: name, Part: "p", Variant: variant, Clients: clients, Value: &matrix.Figure{Value: value}, Trials: 1}
	}
	s := &analysis.Summary{Results: analysis.Results{Claims: []compare.Claim{
		{Says: "more", Figures: []compare.ClaimFigure{figure("throughput", "a", 48, 2000), figure("throughput", "b", 48, 1000)}, Outcome: compare.Underpowered},
		{
			Says: "a cause", Outcome: compare.Underpowered,
			Figures: []compare.ClaimFigure{figure("p99", "tcp", 500, 67_000), figure("p99", "tcp:inflight=50", 500, 29_000)},
		},
	}}}
	text := strings.Join(claimSentences(s), "\n")
	holds(t, text, "1 trial each, so nothing is proven: throughput with 48 clients: a 2,000/s, b 1,000/s; P99 with 500 clients: tcp 67 ms, tcp:inflight=50 29 ms.")
	if got, want := strings.Join(StudyLead(s), "\n"), "1 trial each, so nothing is proven: throughput with 48 clients: a 2,000/s, b 1,000/s\nP99 with 500 clients: tcp 67 ms, tcp:inflight=50 29 ms"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.Claims[1].Figures[0].Value = nil // the effect itself was not measured
	if text := strings.Join(claimSentences(s), "\n"); strings.Contains(text, "tcp:inflight=50 29 ms") {
		t.Error(text)
	}
}

func TestBulkInWords(t *testing.T) {
	cell := func(variant string, seconds float64) *matrix.Cell {
		c := &matrix.Cell{
			Cell: record.Cell{Part: "get", Variant: variant, Place: record.Place{Clients: 1}, Load: record.Load{Model: "closed"}}, Trials: 3, Valid: 3,
			Bulk: &matrix.Bulk{ServerCPU: &matrix.Figure{Value: seconds}, Rate: matrix.Figure{Value: 1}},
		}
		return c
	}
	p := &rank.Part{
		Name: "get", Variants: []string{"grpc", "file"}, Sizes: []record.Payload{{}}, Clients: []int{1},
		Cells: []*matrix.Cell{cell("grpc", 1), cell("file", 0.25)},
	}
	const want = "CPU time of the server per GB in get, with 1 client: grpc 1 s at 1 GB/s; file 0.25 s at 1 GB/s."
	if got := bulkCostSentence(p); len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, c := range p.Cells {
		c.Bulk = nil
	}
	if got := bulkCostSentence(p); got != nil {
		t.Errorf("of calls that carry little: %q", got)
	}
}

func TestAllocationsInWords(t *testing.T) {
	of := func(variant, end string, bytes float64) insight.Allocation {
		return insight.Allocation{
			Part: "p", Variant: variant, End: end, Bytes: bytes, Objects: 3,
			Functions: []insight.Allocator{{Function: "example.com/codec.Copy", Bytes: 0.75}},
		}
	}
	got := allocationSentences(&analysis.Summary{Results: analysis.Results{Allocations: []insight.Allocation{
		of("grpc", insight.ServerEnd, 2048), of("grpc", insight.ClientEnd, 100), of("tcp", insight.ServerEnd, 64),
	}}})
	const want = "A call of p allocates at the server: grpc 2 KiB in 3 objects (75 % of the bytes by codec.Copy); tcp 64 B in 3 objects (75 % of the bytes by codec.Copy)."
	if strings.Join(got, "\n") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
