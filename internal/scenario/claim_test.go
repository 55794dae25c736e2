package scenario

import (
	"strings"
	"testing"
)

const claiming = `version: 1
name: s
claims:
  - {row: F1, says: less, part: a, of: grpc, against: tcp, figure: mean, ratio: 0.5}
  - {says: less still, part: b, below: a, of: grpc, against: tcp, figure: server-cpu}
  - {says: least, part: b, of: rest, against: tcp, figure: cpu}
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
	s, err := Parse("s.yaml", []byte(claiming), words)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Claims) != 3 || s.Claims[0].Of.String() != "grpc" || s.Claims[1].Below != "a" {
		t.Fatalf("claims %+v", s.Claims)
	}
	for part, want := range map[string]int{"a": 1, "b": 1} { // none of what is not measured
		only, err := s.Only(part)
		if err != nil || len(only.Claims) != want {
			t.Errorf("only %s: %d claims, want %d: %v", part, len(only.Claims), want, err)
		}
	}
	for _, test := range []struct{ from, to, says string }{
		{"part: a, of", "part: c, of", `a claim about part "c": want one of a, b`},
		{"below: a", "below: c", `a claim about part "c": want one of a, b`},
		{"of: grpc", "of: rest", "a claim about rest: part a does not measure it"},
		{"figure: mean", "figure: maen", "did you mean mean"},
		{"ratio: 0.5", "ratio: -1", "more than 0"},
		{"ratio: 0.5", "below: b, ratio: 1", "different claims"},
		{"says: less,", "", "needs `says`"},
		{"- name: a", "- name: a\n    profile: allocations", "it is profiled and has no figures"},
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
	s, err := Parse("s.yaml", []byte(claiming), words)
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
