package plan

import (
	"encoding/json"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// An old run of a study gets the changes that the study declares today, where they lead
// through the variants that the run had.
func TestChangesOfOldRunsAreThoseOfTheStudy(t *testing.T) {
	for _, test := range []struct {
		stacks string
		want   int
	}{
		{"grpc,h2,h2:codec=json,h1:codec=json,rest-json", 4}, // the study has another one behind them
		{"grpc,h2:codec=json,h2,h1:codec=json,rest-json", 0},
		{"grpc,h2", 0},
	} {
		variants, err := scenario.ParseVariants(test.stacks)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(scenario.Scenario{Name: "users-api", Parts: []scenario.Part{{Name: "shares", Stacks: variants}}})
		if err != nil {
			t.Fatal(err)
		}
		m := record.Manifest{Name: "users-api", Scenario: text}
		if err := (Library{CheckColumn: func(string) error { return nil }}).DeclareMissing(&m); err != nil {
			t.Fatal(err)
		}
		var got scenario.Scenario
		if err := json.Unmarshal(m.Scenario, &got); err != nil {
			t.Fatal(err)
		}
		if n := len(got.Parts[0].Changes); n != test.want {
			t.Errorf("%s: %d changes, want %d", test.stacks, n, test.want)
		}
	}
}
