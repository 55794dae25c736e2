package advice

import (
	"strings"
	"testing"

	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/record"
	"wirelab.dev/internal/scenario"
)

func variant(t *testing.T, text string) scenario.Variant {
	t.Helper()
	v, err := scenario.ParseVariant(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestClaimsInWords(t *testing.T) {
	claim := analysis.Claim{Row: "F1", Says: "a codec takes a tenth off", Part: "unary", Of: variant(t, "grpc:codec=vt1"), Against: variant(t, "grpc"), Figure: scenario.MeanTime, ClaimedRatio: new(0.9), Ratio: &analysis.Figure{Value: 0.95, Interval: &analysis.Interval{Low: 0.94, High: 0.96}}, Outcome: analysis.Smaller}
	grows, open, borderline, unmeasured := claim, claim, claim, claim
	grows.Says, grows.Part, grows.Below, grows.ClaimedRatio, grows.Outcome = "it grows", "large", "unary", nil, analysis.Compatible
	open.Ratio, open.Outcome = &analysis.Figure{Value: 0.8}, analysis.Underpowered
	borderline.Outcome = analysis.Underpowered
	unmeasured.Ratio, unmeasured.Outcome = nil, analysis.Unmeasured
	s := &analysis.Summary{Results: analysis.Results{Claims: []analysis.Claim{
		claim, grows, open, borderline, unmeasured,
		{Says: "a file server is cheaper", Outcome: analysis.Unmeasured, Unasked: true},
	}}}
	want := []string{
		"F1, “a codec takes a tenth off”: a smaller effect here than is claimed: grpc:codec=vt1 has 0.95 (0.94 to 0.96) times grpc's mean time in unary; claimed are 0.9 times.",
		"F1, “it grows”: compatible with what was measured here: grpc:codec=vt1's mean time over grpc's is in large 0.95 (0.94 to 0.96) times what it is in unary.",
		"F1, “a codec takes a tenth off”: undecided here: grpc:codec=vt1 has 0.8 times grpc's mean time in unary; claimed are 0.9 times; three repeats or more can tell.",
		"F1, “a codec takes a tenth off”: undecided here: grpc:codec=vt1 has 0.95 (0.94 to 0.96) times grpc's mean time in unary; claimed are 0.9 times; it is so close to the border between two answers that 10,000 repeats might not tell.",
		"Without its yardstick, which is measured where `run --yardstick` asks for it, nothing can be said here to “a file server is cheaper”.",
		"For want of valid trials nothing can be said here to F1, “a codec takes a tenth off” (grpc:codec=vt1 and grpc in unary).",
	}
	got := claims(s)
	if len(got) != len(want) {
		t.Fatalf("%d sentences, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
}

func TestBulkInWords(t *testing.T) {
	cell := func(variant string, seconds float64) *analysis.Cell {
		c := &analysis.Cell{
			Cell: record.Cell{Part: "get", Variant: variant, Clients: 1, Load: record.Load{Model: "closed"}}, Trials: 3, Valid: 3,
			Bulk: &analysis.Bulk{ServerCPU: &analysis.Figure{Value: seconds}, Rate: analysis.Figure{Value: 1}},
		}
		return c
	}
	p := &part{
		name: "get", variants: []string{"grpc", "file"}, sizes: []payload{{}}, clients: []int{1},
		cells: []*analysis.Cell{cell("grpc", 1), cell("file", 0.25)},
	}
	const want = "CPU time of the server for a GB in get, with 1 client: grpc 1 s at 1 GB/s; file 0.25 s at 1 GB/s."
	if got := bulk(p); len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, c := range p.cells {
		c.Bulk = nil
	}
	if got := bulk(p); got != nil {
		t.Errorf("of calls that carry little: %q", got)
	}
}

func TestAllocationsInWords(t *testing.T) {
	of := func(variant, end string, bytes float64) analysis.Allocation {
		return analysis.Allocation{
			Part: "p", Variant: variant, End: end, Bytes: bytes, Objects: 3,
			Functions: []analysis.Allocator{{Function: "example.com/codec.Copy", Bytes: 0.75}},
		}
	}
	got := allocations(&analysis.Summary{Results: analysis.Results{Allocations: []analysis.Allocation{
		of("grpc", analysis.ServerEnd, 2048), of("grpc", analysis.ClientEnd, 100), of("tcp", analysis.ServerEnd, 64),
	}}})
	const want = "What a call of p makes the server allocate: grpc 2 KiB in 3 objects (75 % of the bytes by codec.Copy); tcp 64 B in 3 objects (75 % of the bytes by codec.Copy)."
	if strings.Join(got, "\n") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
