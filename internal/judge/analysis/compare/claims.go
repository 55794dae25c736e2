package compare

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

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
	Row string `json:"row"` // row of a published study; may be empty
	// Who says so: published by a study; inferred from a study's text or figures; published, but the
	// bounds are wirelab's own; or wirelab's own claim.
	Basis        scenario.Basis `json:"basis" jsonschema:"enum=published,enum=inferred,enum=own bounds,enum=own"`
	Says         string         `json:"says"`          // the claim in words
	But          string         `json:"but,omitempty"` // objection of the study's authors to the claim; absent if none
	Part         string         `json:"part"`
	Find         string         `json:"find"`                                // the expression that was evaluated for each repeat
	Figures      []ClaimFigure  `json:"figures"`                             // measured figures that the expression uses
	ClaimedRatio *float64       `json:"claimed_ratio" jsonschema:"nullable"` // the claimed value; null if the study only claims a value above 1, or gives bounds
	AtLeast      *float64       `json:"at_least" jsonschema:"nullable"`      // lower bound of the claim; null if it has none
	AtMost       *float64       `json:"at_most" jsonschema:"nullable"`       // upper bound of the claim; null if it has none
	Outcome      Outcome        `json:"outcome" jsonschema:"enum=compatible,enum=larger,enum=smaller,enum=not seen,enum=refuted,enum=reversed,enum=not put to the test,enum=underpowered,enum=refused,enum=not measured"`
	Reason       string         `json:"reason"`                             // why the ratio is missing, or why the claim was not put to the test; may be empty
	Ratio        *matrix.Figure `json:"ratio"`                              // value of the expression
	Margin       float64        `json:"margin"`                             // relative difference that counts as no effect: 0.1 for 10 %, less if the claimed effect is small
	P            float64        `json:"p" jsonschema:"nullable"`            // probability of an estimate this far from the border of the claim if the truth were on the border, corrected for the number of claims; null with too few pairs
	Pairs        int            `json:"pairs"`                              // number of repeats with all figures of the expression
	NeededPairs  *int           `json:"needed_pairs" jsonschema:"nullable"` // approximate repeats that would decide an underpowered claim; null above 10,000, and for other outcomes
	// Unasked is true if the claim needs a yardstick variant that the run did not measure.
	Unasked bool `json:"-"`

	statement  stats.Claim // what is claimed, without an estimate
	fitted     float64     // value of the expression over the figures of the tables; NaN if it has none
	floor      float64     // least variance of the logarithm of the value, see countVariance
	untestable string      // why the figures cannot test the claim; empty if they can
	limited    string      // why the figures can only show less than the claim; empty if they show all
	cold       bool        // untestable because of short warm-ups; later repeats learn from them
}

// A ClaimFigure is one of the figures in a claim's expression.
type ClaimFigure struct {
	Figure  string `json:"figure"` // the figure's name in expressions
	Part    string `json:"part"`
	Variant string `json:"variant"`
	record.Payload
	Clients int            `json:"clients"`
	Value   *matrix.Figure `json:"value"` // as in the table of cells; times in microseconds, throughput per second
	Trials  int            `json:"-"`     // trials that may have the figure
	// inBlocks is true if the trials took turns in blocks.
	inBlocks bool
}

// An Outcome tells how a run's result agrees with a claim.
type Outcome string

// The outcomes.
const (
	Compatible   Outcome = "compatible"          // the effect is as large as claimed, or may be larger
	Larger       Outcome = "larger"              // the effect is larger than claimed
	Smaller      Outcome = "smaller"             // there is an effect, and it is smaller than claimed
	NotSeen      Outcome = "not seen"            // the effect is smaller than claimed, and perhaps there is none
	Refuted      Outcome = "refuted"             // there is no effect beyond the margin, or the value is out of bounds
	Reversed     Outcome = "reversed"            // there is the opposite effect
	NotTested    Outcome = "not put to the test" // the figures say nothing about the claim
	Underpowered Outcome = "underpowered"        // too few trials to decide
	Refused      Outcome = "refused"             // the figures were measured, but checks refused them
	Unmeasured   Outcome = "not measured"
)

// Outcomes lists the outcomes of claims in the order of their counts in reports.
var Outcomes = []Outcome{Compatible, Larger, Smaller, NotSeen, Refuted, Reversed, NotTested, Underpowered, Refused, Unmeasured}

// CountOutcomes counts the outcomes in words: one line for the claims of published studies, and one
// for the scenario's own claims.
func CountOutcomes(claims []Claim) (lines []string) {
	var published, own []Claim
	for _, c := range claims {
		if c.Basis.IsOwn() {
			own = append(own, c)
		} else {
			published = append(published, c)
		}
	}
	name := "claim"
	if len(published) > 0 && len(own) > 0 {
		name = "published claim"
	}
	for _, of := range []struct {
		name   string
		claims []Claim
	}{{name, published}, {"own claim", own}} {
		if len(of.claims) > 0 {
			lines = append(lines, countOutcomes(of.name, of.claims))
		}
	}
	return lines
}

func countOutcomes(name string, claims []Claim) string {
	n := map[Outcome]int{}
	for _, c := range claims {
		n[c.Outcome]++
	}
	var texts []string
	for _, outcome := range Outcomes {
		if n[outcome] > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", n[outcome], outcome))
		}
	}
	if len(claims) != 1 {
		name += "s"
	}
	return fmt.Sprintf("%d %s: %s.", len(claims), name, strings.Join(texts, ", "))
}

// ClaimedText returns the claimed number or its bounds as text. It marks values that no study
// states.
func (c *Claim) ClaimedText() string {
	switch text := c.claimedNumber(); {
	case c.Basis == scenario.BasisInferred:
		return text + " (inferred)"
	case c.Basis == scenario.BasisOwnBounds:
		return text + " (own bounds)"
	case c.Basis.IsOwn() && c.Row != "":
		return text + " (own)"
	default:
		return text
	}
}

func (c *Claim) claimedNumber() string {
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

// claimRule has a larger margin than comparisons, because claims come from other machines.
var claimRule = stats.Rule{Margin: 0.1, Confidence: matrix.Confidence}

// JudgeClaims judges the claims of the scenario. In a run that repeats until they are decided, each
// look uses all trials so far, and narrows the interval of the looks before.
func JudgeClaims(s *study.Study, points, seen []*matrix.Point) []Claim {
	looks := s.ClaimLooks
	if len(looks) == 0 {
		looks = []study.ClaimLook{{Repeats: math.MaxInt, Level: matrix.LevelAfter(s.Until, math.MaxInt)}}
	}
	from := evidence{study: s, points: points, seen: seen, fits: map[string]*matrix.Fit{}}
	var all []Claim
	for _, look := range looks {
		from.look = look
		now := judgeClaimsAt(from)
		for i := range all {
			now[i].narrow(&all[i])
		}
		all = now
	}
	for i := range all {
		all[i].takeFitted()
		all[i].checkSetUp()
	}
	return all
}

// takeFitted replaces the estimate by the value of the expression over the figures of the tables.
func (c *Claim) takeFitted() {
	if c.Ratio == nil {
		return
	}
	takeValue(c.Ratio, c.fitted)
	if i := c.Ratio.Interval; i != nil {
		c.Outcome = Outcome(c.statement.Verdict(stats.Interval{Low: i.Low, High: i.High}, claimRule))
	}
}

// takeValue sets a figure's value, and stretches the interval to contain the value.
func takeValue(figure *matrix.Figure, value float64) {
	if math.IsNaN(value) {
		return
	}
	figure.Value = value
	if i := figure.Interval; i != nil {
		i.Low, i.High = min(i.Low, value), max(i.High, value)
	}
}

// narrow intersects the claim's interval with the interval of an earlier look. Each look has its
// share of the level, so that all intervals hold together. If the estimate lies outside of the
// earlier interval, that interval was probably wrong, and the interval of all trials counts alone.
func (c *Claim) narrow(earlier *Claim) {
	if c.Ratio == nil || earlier.Ratio == nil || c.Ratio.Interval == nil || earlier.Ratio.Interval == nil {
		return
	}
	now, before := c.Ratio.Interval, earlier.Ratio.Interval
	if c.Ratio.Value < before.Low || c.Ratio.Value > before.High {
		return
	}
	now.Low, now.High = max(now.Low, before.Low), min(now.High, before.High)
	c.P = min(c.P, earlier.P)
	c.Outcome = Outcome(c.statement.Verdict(stats.Interval{Low: now.Low, High: now.High}, claimRule))
	if c.Outcome != Underpowered {
		c.NeededPairs = nil
	}
}

// isOpen reports whether more repeats may decide the claim.
func (c *Claim) isOpen() bool {
	return c.Outcome == Underpowered || c.Outcome == NotTested && c.cold || (c.Outcome == Unmeasured || c.Outcome == Refused) && !c.Unasked
}

// judgeClaimsAt judges the claims by the repeats before one look. It corrects for the number of
// claims.
func judgeClaimsAt(from evidence) []Claim {
	all := make([]Claim, len(from.study.Claims))
	var samples []sample
	var judged []int
	alike := map[scatterClass][]sample{}
	for i := range all {
		var ratios []float64
		all[i], ratios = measureClaim(from, &from.study.Claims[i])
		if len(ratios) >= matrix.LeastTrials {
			one := sampleOf(ratios)
			one.floor = all[i].floor
			samples, judged = append(samples, one), append(judged, i)
			class := all[i].scatterClass()
			alike[class] = append(alike[class], one)
		}
	}
	ofAll := estimateNoise(samples)
	claims := make([]stats.Claim, len(samples))
	for n, i := range judged {
		noise := from.noiseOfRatio(&all[i])
		if !noise.isUsual() {
			noise = estimateNoise(alike[all[i].scatterClass()])
		}
		if !noise.isUsual() {
			noise = ofAll
		}
		claims[n] = all[i].statement
		claims[n].Estimate = noise.estimate(samples[n])
	}
	rule := claimRule
	rule.Confidence = from.look.Level.Confidence()
	for n, test := range stats.JudgeClaims(claims, rule) {
		c := &all[judged[n]]
		c.Ratio = new(matrix.FigureOf(test.Ratio))
		c.Outcome, c.P, c.Margin = Outcome(test.Verdict), from.look.Level.Adjust(test.P), test.Margin
		if test.Trials > 0 {
			c.NeededPairs = &test.Trials
		}
	}
	return all
}

// checkSetUp sets the outcome of a claim that the measurement could not test. A client at its limit
// hides differences between variants at the same load, so such a difference still confirms a claim. Too
// few repeats do not show yet whether there is one.
func (c *Claim) checkSetUp() {
	mayDiffer := c.Outcome == Compatible || c.Outcome == Larger || c.Pairs < matrix.LeastTrials
	isDifference := mayDiffer && c.AtLeast == nil && c.AtMost == nil && c.hasOnePlace()
	switch {
	case c.Pairs == 0:
	case c.untestable != "":
		c.Outcome, c.Reason = NotTested, c.untestable
	case c.limited != "" && !isDifference:
		c.Outcome, c.Reason = NotTested, c.limited
	default:
		return
	}
	c.NeededPairs = nil
}

// hasOnePlace reports whether all figures of the claim have the same load.
func (c *Claim) hasOnePlace() bool {
	return !slices.ContainsFunc(c.Figures, func(f ClaimFigure) bool {
		first := c.Figures[0]
		return f.Part != first.Part || f.Payload != first.Payload || f.Clients != first.Clients
	})
}

// measureClaim returns the claim with its figures, and the logarithm of its value in each repeat.
func measureClaim(from evidence, written *scenario.Claim) (measured Claim, ratios []float64) {
	measured = Claim{
		Row: written.Row, Basis: written.BasisIn(from.study.Published), Says: written.Says, But: written.But, Part: written.Part, Find: written.Find,
		ClaimedRatio: nilIfZero(written.Ratio), AtLeast: nilIfZero(written.AtLeast), AtMost: nilIfZero(written.AtMost),
		Outcome: Unmeasured, P: math.NaN(), Margin: claimRule.Margin, fitted: math.NaN(),
		statement: stats.Claim{Ratio: written.Ratio, Least: written.AtLeast, Most: written.AtMost},
	}
	expression, err := claim.Parse(written.Find)
	if err != nil {
		measured.Reason = err.Error() // a newer version of wirelab may have written the manifest
		return measured, nil
	}
	from.figures = []ClaimFigure{}
	values, fitted := from.evaluate(expression, written.Part)
	measured.Figures, measured.floor = from.figures, from.floor
	ratios, measured.fitted = logsOfValues(values), fitted
	if measured.Pairs = len(ratios); measured.Pairs > 0 {
		measured.Outcome = Underpowered
		measured.Ratio = &matrix.Figure{Value: math.Exp(stat.Mean(ratios, nil))}
	}
	measured.setReason(values)
	if measured.Unasked = from.unasked != ""; measured.Unasked {
		measured.Outcome, measured.Reason = Unmeasured, "the run left out "+from.unasked+": a warning says why, or --yardstick or --peers must name its program"
	}
	measured.setLimits(&from, written)
	return measured, ratios
}

// setLimits sets why the figures cannot test the claim, or only a part of it.
func (c *Claim) setLimits(from *evidence, written *scenario.Claim) {
	unmet := ""
	if written.Needs.Says != "" {
		unmet = from.unmetPrecondition(written)
	}
	switch {
	case unmet != "":
		c.untestable = unmet
	case from.unsettled != "":
		c.untestable, c.cold = "not warm: "+from.unsettled, true
	case from.clientBound != "":
		c.limited = "the client was the limit: " + from.clientBound
	}
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
	none, refused := 0, false
	for _, v := range values {
		if math.IsNaN(v.Number) && !v.Missing {
			none++
		}
		if v.Reason != "" && c.Reason == "" {
			c.Reason, refused = v.Reason, v.Refused
		}
	}
	switch {
	case c.Pairs == 0 && refused:
		c.Outcome = Refused
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
