package table

import (
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// TestCalledAddresses has more addresses than a text names, and look-ups of their name.
func TestCalledAddresses(t *testing.T) {
	c := &matrix.Cell{Addresses: &matrix.Addresses{Policy: "all", LookUps: &record.LookUps{Done: 12, Changes: 1, Failed: 2}}}
	c.Addresses.All = []matrix.AddressFigures{{Address: "a:1", Requests: 1_000, Failed: 7, MeanUS: new(5e3)}}
	for range maxShownAddresses {
		c.Addresses.All = append(c.Addresses.All, matrix.AddressFigures{Address: "b:1"})
	}
	const want = "1 of 9 addresses; requests and mean of each: a:1: 1,000 (7 failed) at 5 ms, b:1: 0, b:1: 0, b:1: 0, b:1: 0, b:1: 0, b:1: 0, b:1: 0, " +
		"1 more in --json, 12 look-ups during the load, 1 change, 2 failed"
	if facts := FactsOf(c); len(facts) != 1 || facts[0] != (Fact{"Called", want}) {
		t.Errorf("the page says %q, want %q", facts, want)
	}
}
