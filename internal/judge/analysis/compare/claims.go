package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/claim"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
)

// A Claim holds a claim of the scenario and its outcome in the run.
type Claim struct {
	Row          string         `json:"row"`           // row of a published study; may be empty
	Says         string         `json:"says"`          // the claim in words
	But          string         `json:"but,omitempty"` // objection of the study's authors to the claim; absent if none
	Part         string         `json:"part"`
	Find         string         `json:"find"`                                // the expression that was evaluated for each repeat
	Figures      []ClaimFigure  `json:"figures"`                             // measured figures that the expression uses
	ClaimedRatio *float64       `json:"claimed_ratio" jsonschema:"nullable"` // the claimed value; null if the study only claims a value above 1, or gives bounds
	AtLeast      *float64       `json:"at_least" jsonschema:"nullable"`      // lower bound of the claim; null if it has none
	AtMost       *float64       `json:"at_most" jsonschema:"nullable"`       // upper bound of the claim; null if it has none
	Outcome      Outcome        `json:"outcome" jsonschema:"enum=compatible,enum=larger,enum=smaller,enum=refuted,enum=underpowered,enum=not measured"`
	Reason       string         `json:"reason"`                             // why the ratio is missing; empty if there is a ratio
	Ratio        *matrix.Figure `json:"ratio"`                              // value of the expression; for a claim about a cause, the effect divided by the effect with the first factor changed
	Factors      []ClaimFactor  `json:"factors"`                            // possible causes, the claimed one first; empty unless the claim is about a cause
	Margin       float64        `json:"margin"`                             // relative difference that counts as no effect: 0.1 for 10 %, less if the claimed effect is small
	P            float64        `json:"p" jsonschema:"nullable"`            // probability of an estimate this clear if another outcome were true, Holm-adjusted over the claims; null with too few pairs
	Pairs        int            `json:"pairs"`                              // number of repeats with all figures of the expression
	NeededPairs  *int           `json:"needed_pairs" jsonschema:"nullable"` // approximate repeats that would decide an underpowered claim; null above 10,000, and for other outcomes
	// Unasked is true if the claim needs a yardstick variant that the run did not measure.
	Unasked bool `json:"-"`
}

// A ClaimFigure is one of the figures in a claim's expression.
type ClaimFigure struct {
	Figure  string `json:"figure"` // the figure's name in expressions
	Part    string `json:"part"`
	Variant string `json:"variant"`
	record.Payload
	Clients int            `json:"clients"`
	Value   *matrix.Figure `json:"value"` // median over repeats; times in microseconds, throughput per second
}

// A ClaimFactor is a possible cause of an effect. Moves tells whether the factor changes the
// effect.
type ClaimFactor struct {
	Name    string         `json:"name"`
	Variant string         `json:"variant"`                                                       // the variant with the factor changed
	Ratio   *matrix.Figure `json:"ratio"`                                                         // the effect with the factor unchanged, divided by the effect with the factor changed; null if not measured
	Moves   string         `json:"moves" jsonschema:"enum=yes,enum=reverse,enum=no,enum=unknown"` // how changing the factor changes the effect: yes means smaller, reverse means greater, no means the same within the margin, unknown means not proven
}

// Values of [ClaimFactor.Moves].
const (
	FactorMoves     = "yes"
	FactorMovesUp   = "reverse"
	FactorMovesNot  = "no"
	FactorUndecided = "unknown"
)

// An Outcome tells how a run's result agrees with a claim.
type Outcome string

// The outcomes.
const (
	Compatible   Outcome = "compatible"   // the effect is as large as claimed, or may be larger
	Larger       Outcome = "larger"       // the effect is larger than claimed
	Smaller      Outcome = "smaller"      // the effect is smaller than claimed, and may be zero
	Refuted      Outcome = "refuted"      // there is no effect, or the reverse effect
	Underpowered Outcome = "underpowered" // too few trials to decide
	Unmeasured   Outcome = "not measured"
)

// Outcomes lists the outcomes of claims in the order of their counts in reports.
var Outcomes = []Outcome{Compatible, Larger, Smaller, Refuted, Underpowered, Unmeasured}

// ClaimedText returns the claimed number or its bounds as text.
func (c *Claim) ClaimedText() string {
	bound := func(value float64) string { return strconv.FormatFloat(value, 'g', 4, 64) }
	switch {
	case c.ClaimedRatio != nil:
		return units.Number(*c.ClaimedRatio) + "×"
	case c.AtLeast != nil && c.AtMost != nil:
		return bound(*c.AtLeast) + " to " + bound(*c.AtMost)
	case c.AtLeast != nil:
		return "≥ " + bound(*c.AtLeast)
	case c.AtMost != nil:
		return "≤ " + bound(*c.AtMost)
	}
	return "> 1×"
}

// FactorsInWords describes which factors change the effect, and which do not.
func (c *Claim) FactorsInWords() string {
	var texts []string
	for _, kind := range []struct{ moves, head string }{
		{FactorMoves, "the effect shrinks with the change of "}, {FactorMovesUp, "the effect grows with the change of "}, {FactorMovesNot, "no influence: "}, {FactorUndecided, "undecided: "},
	} {
		var names []string
		for _, f := range c.Factors {
			if f.Moves == kind.moves {
				name := f.Name
				if f.Ratio != nil {
					name += " (" + units.Number(f.Ratio.Value) + "×)"
				}
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			texts = append(texts, kind.head+strings.Join(names, ", "))
		}
	}
	return strings.Join(texts, "; ")
}

// claimRule has a larger margin than comparisons, because claims come from other machines.
var claimRule = stats.Rule{Margin: 0.1, Confidence: matrix.Confidence}

// JudgeClaims judges the claims of the scenario. In a run that repeats until they are decided,
// each claim keeps the outcome of the first look that decided it.
func JudgeClaims(s *study.Study, points, seen []*matrix.Point) []Claim {
	looks := s.ClaimLooks
	if len(looks) == 0 {
		looks = []study.ClaimLook{{Repeats: math.MaxInt, Level: s.Level}}
	}
	var all []Claim
	for i, look := range looks {
		now := judgeClaimsAt(s, points, seen, look)
		if i == 0 {
			all = now
			continue
		}
		for j := range now {
			if all[j].isOpen() {
				all[j] = now[j]
			}
		}
	}
	return all
}

func (c *Claim) isOpen() bool {
	return c.Outcome == Underpowered || c.Outcome == Unmeasured && !c.Unasked
}

// judgeClaimsAt judges the claims by the repeats before one look. It corrects for the number of
// claims.
func judgeClaimsAt(s *study.Study, points, seen []*matrix.Point, look study.ClaimLook) []Claim {
	all := make([]Claim, len(s.Claims))
	var samples []sample
	var judged []int
	for i := range s.Claims {
		var ratios []float64
		all[i], ratios = measureClaim(s, &s.Claims[i], points, seen, look)
		if len(ratios) >= matrix.LeastTrials {
			samples, judged = append(samples, sampleOf(ratios)), append(judged, i)
		}
	}
	noise := estimateNoise(samples)
	claims := make([]stats.Claim, len(samples))
	for n, i := range judged {
		written := &s.Claims[i]
		claims[n] = stats.Claim{Ratio: written.Ratio, Least: written.AtLeast, Most: written.AtMost, Estimate: noise.estimate(samples[n])}
		all[i].Ratio = new(matrix.FigureOf(noise.judge(samples[n], look.Level).Ratio))
	}
	rule := claimRule
	rule.Confidence = look.Level.Confidence()
	for n, test := range stats.JudgeClaims(claims, rule) {
		c := &all[judged[n]]
		c.Outcome, c.P, c.Margin = Outcome(test.Verdict), look.Level.Adjust(test.P), test.Margin
		if test.Trials > 0 {
			c.NeededPairs = &test.Trials
		}
	}
	return all
}

// measureClaim returns the claim with its figures, and the logarithm of its value in each repeat.
func measureClaim(s *study.Study, written *scenario.Claim, points, seen []*matrix.Point, look study.ClaimLook) (measured Claim, ratios []float64) {
	measured = Claim{
		Row: written.Row, Says: written.Says, But: written.But, Part: written.Part, Find: written.Find,
		ClaimedRatio: nilIfZero(written.Ratio), AtLeast: nilIfZero(written.AtLeast), AtMost: nilIfZero(written.AtMost),
		Outcome: Unmeasured, P: math.NaN(), Margin: claimRule.Margin,
	}
	expression, err := claim.Parse(written.Find, written.IsCause())
	if err == nil && written.IsCause() && len(written.Factors) == 0 {
		err = errors.New("the claim about a cause has no factors: add factors to the claim in the scenario")
	}
	if err != nil {
		measured.Reason = err.Error() // a newer version of wirelab may have written the manifest
		return measured, nil
	}
	from := &evidence{study: s, points: points, seen: seen, look: look, figures: []ClaimFigure{}}
	variants := written.Variants()
	values := make([][]claim.Value, len(variants))
	for i, variant := range variants {
		values[i] = from.evaluate(expression, written.Part, variant)
	}
	measured.Figures = from.figures
	ratios = logsOfValues(values[0])
	if written.IsCause() {
		for i, factor := range written.Factors {
			measured.Factors = append(measured.Factors, newClaimFactor(factor, logEffectRatios(values[0], values[i+1]), look.Level))
		}
		ratios = logEffectRatios(values[0], values[1])
	}
	if measured.Pairs = len(ratios); measured.Pairs > 0 {
		measured.Outcome = Underpowered
		measured.Ratio = &matrix.Figure{Value: math.Exp(mean(ratios))}
	}
	measured.setReason(slices.Concat(values...))
	if measured.Pairs == 0 && measured.Outcome == Unmeasured && from.refused != "" {
		measured.Reason = from.refused
	}
	if measured.Unasked = from.unasked != ""; measured.Unasked {
		measured.Reason = "the run left out " + from.unasked + ": measure again with --yardstick"
	}
	return measured, ratios
}

func nilIfZero(value float64) *float64 {
	if value == 0 {
		return nil
	}
	return &value
}

// setReason sets the reason if the expression has no value in some repeats. If the claimed effect
// is absent in every repeat, the claim is refuted.
func (c *Claim) setReason(values []claim.Value) {
	none := 0
	for _, v := range values {
		if math.IsNaN(v.Number) && !v.Missing {
			none++
		}
		if v.Reason != "" && c.Reason == "" {
			c.Reason = v.Reason
		}
	}
	switch {
	case c.Pairs == 0 && none >= matrix.LeastTrials:
		c.Outcome = Refuted
		c.Reason += fmt.Sprintf(", in each of %d repeats", none)
	case c.Pairs > 0 && none > 0:
		c.Reason += fmt.Sprintf(", in %d repeats", none)
	case c.Pairs > 0:
		c.Reason = ""
	}
}

func logsOfValues(values []claim.Value) []float64 {
	var logs []float64
	for _, v := range values {
		if !math.IsNaN(v.Number) {
			logs = append(logs, math.Log(v.Number))
		}
	}
	return logs
}

// logEffectRatios returns the logarithm of `of` divided by `over`, for repeats with both values.
func logEffectRatios(of, over []claim.Value) []float64 {
	var logs []float64
	for i := range of {
		if log := math.Log(of[i].Number / over[i].Number); !math.IsNaN(log) {
			logs = append(logs, log)
		}
	}
	return logs
}

// newClaimFactor decides by the whole interval of the ratio whether a factor changes the effect.
func newClaimFactor(f scenario.Factor, logs []float64, at matrix.Level) ClaimFactor {
	factor := ClaimFactor{Name: f.Name, Variant: f.Stack.String(), Moves: FactorUndecided}
	if len(logs) == 0 {
		return factor
	}
	ratio, _ := ratioFromLogs(logs, at)
	factor.Ratio = &ratio
	if i := ratio.Interval; i != nil {
		switch margin := 1 + claimRule.Margin; {
		case i.Low > margin:
			factor.Moves = FactorMoves
		case i.High < 1/margin:
			factor.Moves = FactorMovesUp
		case i.Low >= 1/margin && i.High <= margin:
			factor.Moves = FactorMovesNot
		}
	}
	return factor
}
