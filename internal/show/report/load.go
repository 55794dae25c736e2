package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// IsLoad reports whether a run is one trial of a service of the user's own, which is shown
// by itself, and not as a line of a table.
func IsLoad(run *Run) bool {
	cells := run.Summary.Cells
	return len(cells) == 1 && cells[0].Kind().Alone && cells[0].Trials == 1 && cells[0].HasFigures()
}

// WriteLoad shows the trial of a service: how fast, how it failed, what it cost.
func WriteLoad(w io.Writer, run *Run, terminal Terminal) error {
	c := &run.Summary.Cells[0]
	var out loadText
	out.line("load", "%s", c.Target+", "+loadOfService(c))
	out.line("requests", "%s in %v: %s/s, %s", units.Thousands(c.Requests), wholeTime(c.WindowSeconds), perSecond(c.Throughput.Value), failedOf(c.Errors, c.Requests))
	if c.Errors < c.Requests { // otherwise there is no time of an answer
		out.times(c)
	}
	for i := range c.Named {
		out.named(&c.Named[i])
	}
	for _, s := range namedStatuses(&c.Cell, c.Statuses) {
		out.line("status", "%s: %s", s.Name, units.Thousands(s.Count))
	}
	for _, e := range c.ErrorKinds {
		class := e.Class
		if e.Code != "" && e.Code != codes.Unknown.String() { // which HTTP does not have
			class += " (" + e.Code + ")"
		}
		out.line("error", "%s of %s: %s", units.Thousands(e.Count), class, shortLine(e.Example))
	}
	if k := c.Checking; k != nil {
		out.line("checking", "%s an answer, between calls; %s of the answers were looked at by all conditions",
			micros(float64(k.TookNS)/1e3/float64(k.Answers)), percent(float64(k.Whole)/float64(k.Answers)))
	}
	out.line("connections", "%d opened, %d of them in the window", int64(c.Opened.Value), c.Connections.During)
	if s := c.Search; s != nil {
		out.line("goal", "%s: kept at %s/s, missed at %s/s", c.Load.Goal, perSecond(s.Kept.Value), perSecond(s.Missed.Value))
	}
	out.fleet(run)
	out.line("client", "%s", cost(c.ClientCPU, &c.Client))
	out.line("service", "%s", cost(c.ServerCPU, &c.Server))
	out.checks(c, run.Records[0].Warnings, terminal)
	_, err := io.WriteString(w, out.String())
	return err
}

// loadText has a line a fact, with its name before it.
type loadText struct {
	strings.Builder
	last string
}

// nameWidth is that of the longest name.
const nameWidth = len("connections")

func (t *loadText) line(name, format string, args ...any) {
	shown := name
	if name == t.last {
		shown = ""
	}
	t.last = name
	fmt.Fprintf(t, "%-*s  %s\n", nameWidth, shown, fmt.Sprintf(format, args...))
}

// checks says what to think of the figures: what makes them invalid, and what is to be known.
func (t *loadText) checks(c *matrix.Cell, warnings []string, terminal Terminal) {
	for _, f := range c.Findings {
		switch text := f.Name + ": " + f.Detail; f.Level {
		case record.Invalid:
			t.paragraph("INVALID", text, terminal)
		case record.Warning:
			t.paragraph("note", text, terminal)
		}
	}
	for _, text := range warnings {
		t.paragraph("note", text, terminal)
	}
}

// paragraph is a fact of several lines.
func (t *loadText) paragraph(name, text string, terminal Terminal) {
	var wrapped strings.Builder
	wrap(&wrapped, text, layout{width: cmp.Or(terminal.Width, usualWidth) - nameWidth - 2})
	for line := range strings.Lines(wrapped.String()) {
		t.line(name, "%s", strings.TrimSuffix(line, "\n"))
	}
	t.last = ""
}

// loadOfService is how the service was loaded, in words.
func loadOfService(c *matrix.Cell) string {
	text := fmt.Sprintf("%s (%s)", cellName(&c.Cell), c.Connection)
	switch l := c.Load; {
	case l.RampTo > 0:
		text += fmt.Sprintf(", %s to %s/s", perSecond(l.RatePerSecond), perSecond(l.RampTo))
	case l.RatePerSecond > 0:
		text += fmt.Sprintf(", %s/s, %s", perSecond(l.RatePerSecond), l.Arrivals)
	}
	if c.WarmUp.Value > 0 {
		text += fmt.Sprintf(", after %v of warm-up", wholeTime(c.WarmUp.Value/1e3))
	}
	return text
}

func wholeTime(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * 1e9)).Round(10 * time.Millisecond)
}

func failedOf(failed, requests int64) string {
	if failed > 0 {
		return fmt.Sprintf("%s failed (%s)", units.Thousands(failed), percent(float64(failed)/float64(max(1, requests))))
	}
	return "none failed"
}

// times shows the response time, from when a request was due, and in an open loop the
// service time below it, and how the times are spread.
func (t *loadText) times(c *matrix.Cell) {
	if c.Response != nil {
		t.line("response", "%s", percentiles(c.Response))
	}
	t.line("latency", "%s", percentiles(&c.Service))
	if c.Messages != nil {
		t.line("messages", "%s answered: each %s", units.Thousands(c.Messages.Requests), percentiles(&c.Messages.Times))
	}
	t.spread(c.Spread)
}

// named shows the calls of one name.
func (t *loadText) named(calls *matrix.CallTimes) {
	t.line("step", "%s", calls.Name)
	t.line("step", "    %s requests: %s/s, %s", units.Thousands(calls.Requests), perSecond(calls.Throughput.Value), failedOf(calls.Failed, calls.Requests))
	t.line("step", "    %s", percentiles(&calls.Times))
}

// percentiles lists the times, without those that too few requests lie beyond.
func percentiles(l *matrix.Latencies) string {
	if l.Max.Value == 0 {
		return "none was answered"
	}
	parts := []string{"mean " + micros(l.Mean.Value)}
	for _, q := range matrix.Quantiles {
		if value := q.Of(l).Value; finite(value) {
			parts = append(parts, q.Tag.Get("label")+" "+micros(value))
		}
	}
	return strings.Join(append(parts, "max "+micros(l.Max.Value)), ", ")
}

// spread draws how many requests took how long, in steps of a factor.
func (t *loadText) spread(steps []matrix.SpreadStep) {
	const rows, widest = 10, 40
	if len(steps) == 0 {
		return
	}
	each := len(steps) / rows
	counts := make([]int64, rows)
	for i, step := range steps {
		counts[i/each] += step.Requests
	}
	most := slices.Max(counts)
	for i, n := range counts {
		bar := strings.Repeat("■", int(float64(widest)*float64(n)/float64(most)))
		t.line("spread", "up to %7s %s %s", micros(steps[(i+1)*each-1].Until), bar, units.Thousands(n))
	}
}

// cost says what an end took.
func cost(cpu *matrix.Figure, end *matrix.End) string {
	if cpu == nil || end.Cores == nil {
		return "its cost is not known: it does not run here, or cannot be seen"
	}
	text := fmt.Sprintf("%s of CPU a request, %s CPUs", micros(cpu.Value), significant(end.Cores.Value))
	if end.RSS != nil {
		text += ", " + byteSize(int(end.RSS.Value)) + " of memory"
	}
	return text
}

func shortLine(text string) string {
	const longest = 160
	line := []rune(strings.ReplaceAll(text, "\n", " "))
	if len(line) > longest {
		return string(line[:longest]) + "…"
	}
	return string(line)
}
