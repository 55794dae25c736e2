package analysis

import (
	"cmp"
	"math"
	"slices"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stats"
)

// Claim is a claim of the scenario, and what the run says to it.
type Claim struct {
	Row           string           `json:"row"`  // of a published study; may be empty
	Says          string           `json:"says"` // what is claimed
	Part          string           `json:"part"`
	Clients       int              `json:"clients"` // that it was judged with; 0 where it was not
	Of            scenario.Variant `json:"of"`      // a variant
	Against       scenario.Variant `json:"against"` // a variant
	Figure        scenario.Figure  `json:"figure" jsonschema:"enum=mean,enum=p99,enum=cpu,enum=client-cpu,enum=server-cpu,enum=throughput,enum=client-user,enum=server-user,enum=client-switches,enum=server-switches,enum=client-futex,enum=server-futex"`
	ClaimedRatio  *float64         `json:"claimed_ratio" jsonschema:"nullable"` // null where the claim is only that there is less
	Below         string           `json:"below"`                               // the part whose ratio is to be higher; may be empty
	Outcome       Outcome          `json:"outcome" jsonschema:"enum=compatible,enum=smaller,enum=refuted,enum=underpowered,enum=not measured"`
	OfFigure      *Figure          `json:"of_figure"` // in microseconds; of throughput, a second; null where it was not measured
	AgainstFigure *Figure          `json:"against_figure"`
	Ratio         *Figure          `json:"ratio"`                              // of the two; with below, of the two parts' ratios
	Margin        float64          `json:"margin"`                             // the relative difference that counts as none: 0.1 for 10 %, less where the claimed effect is small
	P             float64          `json:"p" jsonschema:"nullable"`            // of an estimate this clear if another outcome is true, Holm-adjusted over the claims; null with too few pairs
	Pairs         int              `json:"pairs"`                              // repeats that it rests on
	NeededPairs   *int             `json:"needed_pairs" jsonschema:"nullable"` // of an underpowered claim: about how many would tell; null where none under 10,000, and for other outcomes
	// Unasked tells of a claim that was not measured that it is about a yardstick
	// which the run left out.
	Unasked bool `json:"-"`
}

// Outcome is what a run says to a claim.
type Outcome string

// The outcomes.
const (
	Compatible   Outcome = "compatible"   // the effect is as large as is claimed, or larger
	Smaller      Outcome = "smaller"      // there is an effect in that direction, and it is smaller
	Refuted      Outcome = "refuted"      // there is no effect, or the reverse
	Underpowered Outcome = "underpowered" // these trials cannot tell
	Unmeasured   Outcome = "not measured"
)

// claimRule has a greater margin than comparisons have: what is claimed was measured
// on another machine.
var claimRule = stats.Rule{Margin: 0.1, Confidence: confidence}

// judgeClaims judges those that the scenario has, corrected for their number. Seen are the
// passes that counted system calls.
func judgeClaims(s *study, points, seen []*point) []Claim {
	all := make([]Claim, len(s.claims))
	var samples []sample
	var judged []int
	for i, c := range s.claims {
		var ratios []float64
		of := points
		if c.Figure.Probe() != "" {
			of = seen
		}
		all[i], ratios = measureClaim(c, of)
		all[i].Unasked = all[i].Outcome == Unmeasured &&
			(slices.Contains(s.leftOut, c.Of.String()) || slices.Contains(s.leftOut, c.Against.String()))
		if len(ratios) >= LeastTrials {
			samples, judged = append(samples, sampleOf(ratios)), append(judged, i)
		}
	}
	noise := estimateNoise(samples)
	claims := make([]stats.Claim, len(samples))
	for n, i := range judged {
		claims[n] = stats.Claim{Ratio: s.claims[i].Ratio, Estimate: noise.estimate(samples[n])}
		all[i].Ratio = new(estimated(noise.judge(samples[n], s.level).Ratio))
	}
	rule := claimRule
	rule.Confidence = s.level.confidence()
	for n, test := range stats.JudgeClaims(claims, rule) {
		c := &all[judged[n]]
		c.Outcome, c.P, c.Margin = Outcome(test.Verdict), s.level.adjust(test.P), test.Margin
		if test.Trials > 0 {
			c.NeededPairs = &test.Trials
		}
	}
	return all
}

// measureClaim returns the claim with its figures, and the logarithms of its ratio, one
// a repeat.
func measureClaim(c scenario.Claim, points []*point) (measured Claim, ratios []float64) {
	measured = Claim{
		Row: c.Row, Says: c.Says, Part: c.Part, Of: c.Of, Against: c.Against,
		Figure: c.Figure, Below: c.Below, Outcome: Unmeasured,
		P: math.NaN(), Margin: claimRule.Margin,
	}
	if c.Ratio > 0 { // else the claim is only that there is less
		measured.ClaimedRatio = &c.Ratio
	}
	of := metrics[string(c.Figure)] // whose names are the same
	sides := pairOf(c.Part, c, points)
	if of == nil || sides == nil {
		return measured, nil
	}
	measured.Clients = sides[0].cell.Clients
	measured.OfFigure, measured.AgainstFigure = known(sides[0].valid(), of), known(sides[1].valid(), of)
	if c.Below != "" {
		beside := pairOf(c.Below, c, points)
		if beside == nil {
			return measured, nil
		}
		sides = append(sides, beside...)
	}
	logs := logsOf(sides, of)
	ratios = differences(logs[0], logs[1])
	if c.Below != "" {
		ratios = differences(ratios, differences(logs[2], logs[3]))
	}
	if measured.Pairs = len(ratios); measured.Pairs > 0 {
		measured.Outcome = Underpowered
		measured.Ratio = &Figure{Value: math.Exp(mean(ratios))}
	}
	return measured, ratios
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
