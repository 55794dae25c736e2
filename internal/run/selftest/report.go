package selftest

import (
	"fmt"
	"math"
	"strings"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
)

// ResultVersion is the form of a Result.
const ResultVersion = 1

// A Result holds the verdicts of all situations that were staged.
type Result struct {
	Version    int            `json:"version"`
	Placement  host.Placement `json:"placement"`
	Situations []Verdict      `json:"situations"`
	Classes    map[Class]int  `json:"classes"` // how many situations are of each
	Twins      int            `json:"twins"`
	Refused    int            `json:"refused"` // twins that are invalid
}

// Add adds a verdict, and counts it.
func (r *Result) Add(v Verdict) {
	r.Situations = append(r.Situations, v)
	r.Classes[v.Class]++
	if v.Honest != nil {
		r.Twins++
	}
	if v.Refused != nil {
		r.Refused++
	}
}

// refusedAtMost returns how many honest twins may be refused: one in 30, and at least one.
func refusedAtMost(twins int) int { return max(1, twins/30) }

// Totals says how many situations were noticed.
func (r *Result) Totals() string {
	return fmt.Sprintf("%d of %d situations were staged: %d noticed, %d harmless and not noticed, %d passed unnoticed, %d unclear; %d of %d honest twins were refused",
		len(r.Situations)-r.Classes[NotStaged], len(r.Situations), r.Classes[Noticed], r.Classes[Harmless],
		r.Classes[Passed], r.Classes[Unclear], r.Refused, r.Twins)
}

// Describe says a situation's verdict in a few lines.
func (v *Verdict) Describe() string {
	var b strings.Builder
	switch v.Class {
	case NotStaged:
		return fmt.Sprintf("%-16s not staged: %s", v.Name, v.NotStaged)
	case Noticed:
		fmt.Fprintf(&b, "%-16s noticed, %s by %s", v.Name, v.By.Level, v.By.Name)
	case Unclear:
		fmt.Fprintf(&b, "%-16s unclear, %s by %s, and so was its twin", v.Name, v.By.Level, v.By.Name)
	case Harmless:
		fmt.Fprintf(&b, "%-16s not noticed, harmless", v.Name)
	default:
		fmt.Fprintf(&b, "%-16s PASSED unnoticed", v.Name)
	}
	if v.Moved != nil {
		fmt.Fprintf(&b, " (P50 ×%s, P99 ×%s, throughput ×%s)", ratio(v.Moved.P50), ratio(v.Moved.P99), ratio(v.Moved.Throughput))
	}
	fmt.Fprintf(&b, "\n      staged: %s\n", v.Lie)
	if v.By != nil {
		fmt.Fprintf(&b, "      judge:  %s\n", v.By.Detail)
	} else {
		fmt.Fprintf(&b, "      judge:  %s\n", otherChecks(v.Told))
	}
	if v.Refused != nil {
		fmt.Fprintf(&b, "      its honest twin (%s) was REFUSED: %s, %s\n", v.Twin, v.Refused.Name, v.Refused.Detail)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// otherChecks says what the checks that do not name the situation found.
func otherChecks(o *Outcome) string {
	var said []string
	for _, c := range o.Checks {
		if c.Level != record.Unknown {
			said = append(said, fmt.Sprintf("%s by %s, which does not name it", c.Level, c.Name))
		}
	}
	if len(said) == 0 {
		return "said nothing"
	}
	return strings.Join(said, "; ")
}

// ratio writes a ratio with two digits, or as a whole number if it has more digits.
func ratio(r float64) string {
	if r >= 10 {
		return fmt.Sprintf("%.0f", math.Round(r))
	}
	return fmt.Sprintf("%.2g", r)
}

// Check fails where a false figure passed unnoticed, or too many honest twins were refused.
func (r *Result) Check() error {
	passed, unclear := r.Classes[Passed], r.Classes[Unclear]
	if passed+unclear == 0 && r.Refused <= refusedAtMost(r.Twins) {
		return nil
	}
	return fmt.Errorf("false figures that passed unnoticed: %d; that could not be told from what else goes on here: %d; honest twins that were refused: %d of %d",
		passed, unclear, r.Refused, r.Twins)
}
