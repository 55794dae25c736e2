package advice

import (
	"strings"
	"testing"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// TestStepsSayTheCauseFirst: what takes the step away comes before the figures.
func TestStepsSayTheCauseFirst(t *testing.T) {
	step := func(variant string, ratio float64, outcome compare.StepKind) compare.Step {
		s := compare.Step{Part: "factors", Variant: variant, Clients: 1, From: 32700, To: 32800, Outcome: outcome, Time: matrix.Figure{Value: ratio}}
		if variant != "grpc" {
			s.Base = "grpc"
		}
		return s
	}
	first := step("grpc", 2, compare.HasStep)
	first.Faults = &matrix.Figure{Value: 1.5, Interval: &matrix.Interval{Low: 1, High: 2}}
	got := stepLines(&analysis.Summary{Results: analysis.Results{Steps: []compare.Step{
		first, step("grpc:smallobject=64KiB", 2.1, compare.StepStays), step("grpc:pool-tiers=none", 1.1, compare.StepGone), step("grpc:gogc=off", 1.5, compare.StepUndecided),
	}}})
	want := []string{
		"32,700 B to 32,800 B over grpc: 2×, with 1.5 (1 to 2) more page faults, a step; gone with pool-tiers=none 1.1×; not gone with smallobject=64KiB 2.1×; undecided with gogc=off 1.5×.",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
