package table

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/show/report/format"
)

// leastTailShare is the least share of the difference or of the variance of a stage with a row of its own.
const leastTailShare = 0.005

// writeTail prints the stages of a cell's slow calls beside those of its median calls.
func writeTail(out *strings.Builder, i *insight.Insight) {
	t := i.Tail
	if t == nil {
		return
	}
	if t.Refused != "" {
		fmt.Fprintf(out, "\nThe slow calls of %s are not explained: %s\n", i.Key(), t.Refused)
		return
	}
	cost := "the probe's cost is unknown"
	if i.Life.Cost != nil {
		cost = fmt.Sprintf("calls took %s times as long with the probe", units.Number(*i.Life.Cost))
	}
	fmt.Fprintf(out, "\nThe slowest %d of %d calls of %s beside the %d calls between P40 and P60 (%s)\n", t.SlowCalls, t.Calls, i.Key(), t.MedianCalls, cost)
	to := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(to, "\tmedian calls\tslow calls\texcess\tshare of excess\t(95 %)\tshare of variance\t")
	others := insight.TailStage{}
	hidden := 0
	for _, s := range t.Stages {
		if max(math.Abs(s.Share), math.Abs(s.Variance)) < leastTailShare {
			hidden++
			others.Median, others.Slow, others.Excess = others.Median+s.Median, others.Slow+s.Slow, others.Excess+s.Excess
			continue
		}
		fmt.Fprintf(to, "%s\t%s\t%s\t%s\t%s %%\t(%s to %s)\t%s %%\t\n", s.Name, signedTime(s.Median), signedTime(s.Slow), signedTime(s.Excess),
			signedPercent(s.Share), signedPercent(s.Interval.Low), signedPercent(s.Interval.High), signedPercent(s.Variance))
	}
	if hidden > 0 {
		fmt.Fprintf(to, "%s\t%s\t%s\t%s\t\t\t\t\n", words.Count(hidden, "other"), signedTime(others.Median), signedTime(others.Slow), signedTime(others.Excess))
	}
	fmt.Fprintf(to, "= a call\t%s\t%s\t%s\t\t\t\t\n", signedTime(t.Median), signedTime(t.Slow), signedTime(t.Slow-t.Median))
	_ = to.Flush() // a strings.Builder does not fail
	if len(t.Functions) > 0 {
		fmt.Fprintf(out, "Functions with the largest excess: %s\n", strings.Join(lists.Map(t.Functions, func(f insight.TailFunction) string {
			return fmt.Sprintf("%s %s (%s)", format.ShortFunction(f.Function), signedTime(f.Excess), f.Stage)
		}), ", "))
	}
}

// signedTime writes a time in microseconds that may be negative.
var signedTime = withMinus(func(us float64) string { return units.Time(us * 1e3) })

// signedPercent writes a share that may be negative, as a number of percent.
func signedPercent(share float64) string {
	return strings.Replace(strconv.Itoa(int(math.Round(100*share))), "-", "−", 1)
}
