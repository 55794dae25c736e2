package scenario

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/claim"
)

const claiming = `version: 1
name: s
claims:
  - row: F1
    says: less
    part: a
    find: ratio("mean", "grpc", "tcp")
    claimed: 0.5
  - {says: less still, part: b, find: 'part("a").ratio("server-cpu", "grpc", "tcp") / ratio("server-cpu", "grpc", "tcp")'}
  - {says: least, part: b, find: 'ratio("cpu", "rest", "tcp")', at-most: 1}
  - says: the other library causes it
    part: b
    find: ratio("mean", "tcp", "grpc", 64)
    claimed: cited("t", "tcp", "mean") / cited("t", "grpc", "mean")
published: somewhere
defaults:
  sizes: [64]
  clients: [1]
  stacks: [tcp, grpc]
parts:
  - name: a
  - name: b
    yardsticks: [rest]
`

func TestClaims(t *testing.T) {
	words := words
	words.Published = func(name string) (*claim.PublishedTable, error) {
		if name != "somewhere" {
			return nil, fmt.Errorf("no table of %s", name)
		}
		return claim.ReadPublishedTable(strings.NewReader("table,stack,mode,size_bytes,concurrency,metric,value,unit,note\nt,grpc,,,,mean,4,us,\nt,tcp,,,,mean,1,us,\n"))
	}
	s, err := Parse("s.yaml", []byte(claiming), words)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Claims) != 4 || s.Claims[0].Ratio != 0.5 || s.Claims[3].Ratio != 0.25 {
		t.Fatalf("claims %+v", s.Claims)
	}
	for part, want := range map[string]int{"a": 1, "b": 2} { // none of what is not measured
		only, err := s.Only(part)
		if err != nil || len(only.Claims) != want {
			t.Errorf("only %s: %d claims, want %d: %v", part, len(only.Claims), want, err)
		}
	}
	for _, test := range []struct{ from, to, says string }{
		{"part: a\n", "part: c\n", `a claim names the unknown part "c": want one of a, b`},
		{`part("a")`, `part("c")`, `a claim names the unknown part "c": want one of a, b`},
		{`"grpc", "tcp")` + "\n", `"rest", "tcp")` + "\n", "find: part a does not measure rest; want one of tcp, grpc"},
		{`"mean", "grpc"`, `"maen", "grpc"`, "did you mean mean"},
		{`"mean", "grpc", "tcp")`, `"mean", "grpc"`, "find: unexpected token"},
		{`ratio("mean"`, `raito("mean"`, "find: unknown name raito"},
		{`"mean", "grpc"`, `"client-futex", "grpc"`, "give the part `probes: [syscalls]`"},
		{"claimed: 0.5", "claimed: -1", "more than 0"},
		{"claimed: 0.5", "claimed: 1", "neither more nor less"},
		{"claimed: 0.5", "claimed: half", "claimed: unknown name half"},
		{"claimed: 0.5", "claimed: 0.5\n    at-least: 2", "leave one or the other out"},
		{"at-most: 1", "at-most: 1, at-least: 2", "want `at-least` below `at-most`"},
		{`cited("t", "grpc"`, `cited("t", "quic"`, "claimed: found 0 published figures"},
		{"claimed: 0.5", "effect: grpc", "effect"},
		{"published: somewhere", "published: elsewhere", "published: no table of elsewhere"},
		{"says: less\n", "says: \"\"\n", "needs `says`"},
		{"- name: a", "- name: a\n    profile: allocations", "is profiled and has no figures"},
		{"- name: a", "- name: a\n    profile: alocations", "did you mean allocations"},
		{"yardsticks: [rest]", "yardsticks: [tcp]", "listed twice"},
		{"yardsticks: [rest]", "yardsticks: [resst]", "no stack"},
	} {
		text := strings.Replace(claiming, test.from, test.to, 1)
		if _, err := Parse("s.yaml", []byte(text), words); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want an error that says %q", test.to, err, test.says)
		}
	}
}

func TestYardsticksAreMeasuredWhereTheyAreWanted(t *testing.T) {
	unclaimed, _, _ := strings.Cut(claiming, "claims:")
	_, rest, _ := strings.Cut(claiming, "published: somewhere\n")
	s, err := Parse("s.yaml", []byte(unclaimed+rest), words)
	if err != nil {
		t.Fatal(err)
	}
	count := func(s *Scenario) int { return len(s.cells()) }
	with := s.With(func(v Variant) bool { return v.Stack == "rest" })
	without := s.With(func(Variant) bool { return false })
	if count(s) != 4 || count(without) != 4 || count(with) != 5 {
		t.Errorf("%d cells, %d without and %d with the yardstick; want 4, 4 and 5", count(s), count(without), count(with))
	}
	for _, again := range []*Scenario{with, without} { // as a manifest is read when a run goes on
		if err := again.Check(words); err != nil {
			t.Error(err)
		}
	}
}

// TestForClaims plans what one claim needs alone, and again what is still open.
func TestForClaims(t *testing.T) {
	const text = `version: 1
name: s
claims:
  - {says: one, part: a, find: 'ratio("mean", "grpc", "tcp", 64, 10)'}
  - {says: two, part: a, find: 'crossover(by_size("mean", "grpc", 1), by_size("mean", "tcp", 1))'}
  - {says: unwanted, part: b, find: 'ratio("mean", "grpc", "tcp")'}
defaults: {sizes: [64, 1KiB, 4KiB], clients: [1, 10], stacks: [tcp, grpc, rest]}
parts:
  - {name: a, samples: true, probes: [cpu], steps: [{from: 64, to: 1KiB}]}
  - {name: b}
`
	s, err := Parse("s.yaml", []byte(text), words)
	if err != nil {
		t.Fatal(err)
	}
	only, err := s.ForClaims(func(c *Claim) bool { return c.Says != "unwanted" }, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := only.Check(words); err != nil {
		t.Error(err)
	}
	if len(only.Parts) != 1 || len(only.Claims) != 2 || only.Parts[0].Samples || len(only.Parts[0].Probes) > 0 {
		t.Errorf("%d claims of parts %+v", len(only.Claims), only.Parts)
	}
	if plan := only.Plan(); len(plan) != 3*(2+6) {
		t.Errorf("%d trials, want 3 of 8 cells", len(plan))
	}
	if needed := only.NeededBy([]int{-1, 2, 99}); needed(only.Plan()[0].Cell) {
		t.Error("claims that a damaged manifest made up need cells")
	}
	needed := [](func(Cell) bool){nil, only.NeededBy([]int{0})}
	plan := only.PlanLooks([]int{3, 5}, func(look int, c Cell) bool { return look == 0 || needed[look](c) })
	if len(plan) != 3*8+2*2 {
		t.Fatalf("%d trials, want 2 of 2 cells behind those of the first look", len(plan))
	}
	for _, trial := range plan[24:] {
		if trial.Cell.Clients != 10 || trial.Cell.Size.Request != 64 || trial.Repeat < 4 {
			t.Errorf("again %+v", trial)
		}
	}
}

// A claim about system calls needs its probe in each repeat.
func TestProbesOfClaimsAreRepeated(t *testing.T) {
	const text = `version: 1
name: s
claims:
  - {says: calls, part: a, find: 'ratio("client-futex", "grpc", "tcp")'}
  - {says: time, part: a, find: 'ratio("mean", "grpc", "tcp")'}
defaults: {sizes: [64], clients: [1], stacks: [tcp, grpc]}
parts:
  - {name: a, probes: [syscalls]}
`
	s, err := Parse("s.yaml", []byte(text), words)
	if err != nil {
		t.Fatal(err)
	}
	only, err := s.ForClaims(func(*Claim) bool { return true }, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, needed := range []func(Cell) bool{only.NeededBy([]int{0}), func(c Cell) bool { return c.Probe == "" && only.NeededBy([]int{1})(c) }} {
		var probed []int
		for _, trial := range only.PlanLooks([]int{1, 3}, func(look int, c Cell) bool { return look == 0 || needed(c) }) {
			if trial.Cell.Probe != "" && trial.Cell.Variant.String() == "tcp" {
				probed = append(probed, trial.Repeat)
			}
		}
		want := []int{1, 2, 3}
		if !needed(Cell{Part: "a", Variant: only.Parts[0].Stacks[0], Size: only.Parts[0].Sizes[0], Clients: 1, Probe: "syscalls"}) {
			want = want[:1]
		}
		if !slices.Equal(probed, want) {
			t.Errorf("probes in the repeats %v, want %v", probed, want)
		}
	}
}

func TestBrief(t *testing.T) {
	const text = `version: 1
name: s
claims: [{says: s, part: tail, find: 'figure("tail", "tcp")', at-most: 2}]
defaults: {sizes: [64], clients: [500], stacks: [tcp], warm-up: {at-most: 3s}}
parts:
  - {name: many, load: {model: closed, requests: 1000}}
  - {name: once, load: {model: burst, requests: 1000}}
  - {name: long, load: {model: sustained, rate: 50, duration: 60s}}
  - {name: cold, load: {model: closed, total-requests: 50000}, warm-up: {at-least: 0s, at-most: 0s}}
  - {name: tail, load: {model: closed, requests: 1000}}
  - {name: handshakes, load: {model: closed, requests: 1000}, connection: new}
  - {name: far, load: {model: closed, requests: 1000}, network: {delay: 5ms}}
`
	s, err := Parse("s.yaml", []byte(text), words)
	if err != nil {
		t.Fatal(err)
	}
	brief := s.WithShortWindows(Duration(500 * time.Millisecond))
	if err := brief.Check(words); err != nil {
		t.Error(err)
	}
	for i, want := range []Load{
		{Model: Closed, Duration: Duration(500 * time.Millisecond)},
		{Model: Burst, Requests: 1000},
		{Model: Sustained, Rate: 50, Duration: Duration(time.Second)},
		{Model: Closed, Total: 5000},
		{Model: Closed, Duration: Duration(1500 * time.Millisecond)},
		{Model: Closed, Duration: Duration(1500 * time.Millisecond)},
		{Model: Closed, Duration: Duration(1500 * time.Millisecond)},
	} {
		got := brief.Parts[i].Load
		if warmUp := brief.Parts[i].WarmUp; warmUp.AtMost != s.Parts[i].longestWarmUp() || warmUp.AtLeast > warmUp.AtMost {
			t.Errorf("%s: %+v", brief.Parts[i].Name, warmUp)
		}
		got.Arrivals = ""
		if got != want || brief.Parts[i].Clients[0] != 500 {
			t.Errorf("%s: %+v with %v clients", brief.Parts[i].Name, got, brief.Parts[i].Clients)
		}
	}
}

// A finished run may have claims from before they had an expression.
func TestClaimsOfOlderRuns(t *testing.T) {
	for text, want := range map[string]string{
		`{"says":"s","part":"p","of":"grpc:codec=vt1","against":"grpc","figure":"mean","ratio":0.9}`: `ratio("mean", "grpc:codec=vt1", "grpc")`,
		`{"says":"s","part":"p","of":"a","against":"b","figure":"cpu"}`:                              `1 / ratio("cpu", "a", "b")`,
		`{"says":"s","part":"p","of":"a","against":"b","figure":"cpu","below":"q"}`:                  `part("q").ratio("cpu", "a", "b") / ratio("cpu", "a", "b")`,
		`{"says":"s","part":"p","find":"figure(\"mean\", \"a\")"}`:                                   `figure("mean", "a")`,
	} {
		var c Claim
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(&c)
		if err != nil {
			t.Fatal(err)
		}
		var second Claim
		if err := json.Unmarshal(again, &second); err != nil {
			t.Fatal(err)
		}
		if c.Find != want || second.Find != want || c.Says != "s" {
			t.Errorf("%s is read as %q, and written and read again as %q; want %q", text, c.Find, second.Find, want)
		}
	}
}
