package analysis

import (
	"cmp"
	"math"
	"slices"

	"wirelab.dev/internal/scenario"
)

// Claim is a claim of the scenario, and what the run says to it.
type Claim struct {
	Row           string           `json:"row"`  // of a published study; may be empty
	Says          string           `json:"says"` // what is claimed
	Part          string           `json:"part"`
	Clients       int              `json:"clients"` // that it was judged with; 0 where it was not
	Of            scenario.Variant `json:"of"`      // a variant
	Against       scenario.Variant `json:"against"` // a variant
	Figure        scenario.Figure  `json:"figure" jsonschema:"enum=mean,enum=cpu,enum=client-cpu,enum=server-cpu,enum=throughput"`
	ClaimedRatio  *float64         `json:"claimed_ratio" jsonschema:"nullable"` // null where the claim is only that there is less
	Below         string           `json:"below"`                               // the part whose ratio is to be higher; may be empty
	Outcome       Outcome          `json:"outcome" jsonschema:"enum=holds,enum=holds less,enum=does not hold,enum=undecided,enum=not measured"`
	OfFigure      *Figure          `json:"of_figure"` // in microseconds; of throughput, a second; null where it was not measured
	AgainstFigure *Figure          `json:"against_figure"`
	Ratio         *Figure          `json:"ratio"` // of the two; with below, of the two parts' ratios
	Pairs         int              `json:"pairs"` // repeats that it rests on
	// Unasked tells of a claim that was not measured that it is about a yardstick
	// which the run left out.
	Unasked bool `json:"-"`
}

// Outcome is what a run says to a claim.
type Outcome string

// The outcomes.
const (
	Holds      Outcome = "holds"         // as much as is claimed, or more
	HoldsLess  Outcome = "holds less"    // there is a difference in that direction, and it is smaller
	HoldsNot   Outcome = "does not hold" // there is none, or not one as large
	Open       Outcome = "undecided"     // these trials cannot tell
	Unmeasured Outcome = "not measured"
)

// judgeClaims judges those that the scenario has.
func judgeClaims(s *study, points []*point) []Claim {
	var all []Claim
	for _, c := range s.claims {
		judged := judgeClaim(c, points)
		judged.Unasked = judged.Outcome == Unmeasured &&
			(slices.Contains(s.leftOut, c.Of.String()) || slices.Contains(s.leftOut, c.Against.String()))
		all = append(all, judged)
	}
	return all
}

func judgeClaim(c scenario.Claim, points []*point) Claim {
	judged := Claim{
		Row: c.Row, Says: c.Says, Part: c.Part, Of: c.Of, Against: c.Against,
		Figure: c.Figure, Below: c.Below, Outcome: Unmeasured,
	}
	if c.Ratio > 0 { // else the claim is only that there is less
		judged.ClaimedRatio = &c.Ratio
	}
	of := metrics[string(c.Figure)] // whose names are the same
	sides := pairOf(c.Part, c, points)
	if of == nil || sides == nil {
		return judged
	}
	judged.Clients = sides[0].cell.Clients
	judged.OfFigure, judged.AgainstFigure = known(sides[0].valid(), of), known(sides[1].valid(), of)
	if c.Below != "" {
		beside := pairOf(c.Below, c, points)
		if beside == nil {
			return judged
		}
		sides = append(sides, beside...)
	}
	logs := logsOf(sides, of)
	ratios := differences(logs[0], logs[1])
	if c.Below != "" {
		ratios = differences(ratios, differences(logs[2], logs[3]))
	}
	if judged.Pairs = len(ratios); judged.Pairs == 0 {
		return judged
	}
	ratio, _ := ratioOf(ratios)
	judged.Ratio, judged.Outcome = &ratio, outcome(ratio, c.Ratio)
	return judged
}

// pairOf are the points of the claim's two variants in a part, with the fewest clients
// and the smallest size that it has; nil where one is missing.
func pairOf(part string, c scenario.Claim, points []*point) []*point {
	least := func(variant string) *point {
		var found *point
		for _, p := range points {
			if p.cell.Part == part && p.cell.Variant == variant && (found == nil || cmp.Or(
				cmp.Compare(p.cell.Clients, found.cell.Clients), cmp.Compare(p.cell.RequestBytes, found.cell.RequestBytes)) < 0) {
				found = p
			}
		}
		return found
	}
	a, b := least(c.Of.String()), least(c.Against.String())
	if a == nil || b == nil || a.conditions() != b.conditions() {
		return nil
	}
	return []*point{a, b}
}

// outcome holds a ratio against what is claimed of it; 0 claims that it is below 1.
func outcome(ratio Figure, claim float64) Outcome {
	if ratio.Interval == nil {
		return Open
	}
	low, high := math.Log(ratio.Interval.Low), math.Log(ratio.Interval.High)
	want := math.Log(claim)
	switch {
	case claim == 0:
		want = 0
	case claim > 1: // more is claimed: seen from the other side, less is
		low, high, want = -high, -low, -want
	}
	switch {
	case high < 0 && low <= want:
		return Holds
	case high < 0:
		return HoldsLess
	case low > 0, low > want:
		return HoldsNot
	}
	return Open
}
