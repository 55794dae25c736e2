package table

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
	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// IsSingleLoad reports whether a run is one trial of a user's service, printed without a table.
func IsSingleLoad(s *analysis.Summary) bool {
	cells := s.Cells
	return len(cells) == 1 && cells[0].Kind().Alone && cells[0].Trials == 1 && cells[0].HasFigures()
}

// WriteLoad shows the trial of a service, with the trial's own warnings.
func WriteLoad(w io.Writer, s *analysis.Summary, warnings []string, terminal format.Terminal) error {
	c := &s.Cells[0]
	var out loadText
	out.line("load", "%s", c.Target+", "+describeServiceLoad(c))
	out.line("requests", "%s in %v: %s/s, %s", units.Thousands(c.Requests), roundedDuration(c.WindowSeconds), format.PerSecond(c.Throughput.Value), describeFailed(c.Errors, c.Requests))
	if c.Errors < c.Requests { // if all failed, no answer has a time
		out.responseTimes(c)
	}
	for i := range c.Named {
		calls := &c.Named[i]
		out.line("step", "%s", calls.Name)
		out.line("step", "    %s requests: %s/s, %s", units.Thousands(calls.Requests), format.PerSecond(calls.Throughput.Value), describeFailed(calls.Failed, calls.Requests))
		out.line("step", "    %s", describePercentiles(&calls.Times))
	}
	for _, s := range NamedStatuses(&c.Cell, c.Statuses) {
		out.line("status", "%s: %s", s.Name, units.Thousands(s.Count))
	}
	if sizes := SizesOf(c.Answers); sizes != nil {
		out.line("answers", "%s", sizes)
	}
	for _, e := range c.ErrorKinds {
		class := e.Class
		if e.Code != "" && e.Code != codes.Unknown.String() { // HTTP has no such code
			class += " (" + e.Code + ")"
		}
		out.line("error", "%s of %s: %s", units.Thousands(e.Count), class, format.Shorten(strings.ReplaceAll(e.Example, "\n", " "), 161))
	}
	if k := c.Checking; k != nil {
		out.line("checking", "%s per answer, between calls; %s of the answers were checked against all conditions",
			format.Micros(float64(k.TookNS)/1e3/float64(k.Answers)), format.Percent(float64(k.Whole)/float64(k.Answers)))
	}
	out.line("connections", "%d opened, %d of them in the window", int64(c.Opened.Value), c.Connections.During)
	if s := c.Search; s != nil {
		out.line("goal", "%s: kept at %s/s, missed at %s/s", c.Load.Goal, format.PerSecond(s.Kept.Value), format.PerSecond(s.Missed.Value))
	}
	if s.Fleet != nil {
		out.line("fleet", "%s", advice.FleetLine(s.Fleet, words.MaxLineLength))
		for i := range s.Cells {
			for _, client := range s.Cells[i].FleetClients {
				out.line("fleet", "%s", fleetClientLine(&client))
			}
		}
	}
	out.line("client", "%s", describeCost(c.ClientCPU, &c.Client))
	out.line("service", "%s", describeCost(c.ServerCPU, &c.Server))
	if advice.OnlyDisturbed(s) { // the answer says so
		rest := *c
		rest.Findings = slices.DeleteFunc(slices.Clone(c.Findings), func(f matrix.Finding) bool { return advice.IsAboutOthers(f.Name) })
		c = &rest
	}
	out.checkLines(c, warnings, terminal)
	_, err := io.WriteString(w, out.String())
	return err
}

// A loadText holds one line per fact: its name, then its text.
type loadText struct {
	strings.Builder
	last string
}

// FactNameWidth is the width of the longest fact name.
const FactNameWidth = len("connections")

func (t *loadText) line(name, format string, args ...any) {
	shown := name
	if name == t.last {
		shown = ""
	}
	t.last = name
	fmt.Fprintf(t, "%-*s  %s\n", FactNameWidth, shown, fmt.Sprintf(format, args...))
}

// checkLines prints whether the figures are valid, and warnings about them.
func (t *loadText) checkLines(c *matrix.Cell, warnings []string, terminal format.Terminal) {
	for _, f := range c.Findings {
		switch f.Level {
		case record.Invalid:
			t.paragraph("REFUSED", cmp.Or(f.Spoils, "all figures")+", "+f.Name+": "+f.Detail, terminal)
		case record.Warning:
			t.paragraph("note", f.Name+": "+f.Detail, terminal)
		}
	}
	for _, text := range warnings {
		t.paragraph("note", text, terminal)
	}
}

// paragraph adds a fact with several lines.
func (t *loadText) paragraph(name, text string, terminal format.Terminal) {
	var wrapped strings.Builder
	format.Wrap(&wrapped, text, format.Layout{Width: cmp.Or(terminal.Width, format.DefaultWidth) - FactNameWidth - 2})
	for line := range strings.Lines(wrapped.String()) {
		t.line(name, "%s", strings.TrimSuffix(line, "\n"))
	}
	t.last = ""
}

func describeServiceLoad(c *matrix.Cell) string {
	text := fmt.Sprintf("%s (%s)", CellName(&c.Cell), c.Connection)
	switch l := c.Load; {
	case l.RampTo > 0:
		text += fmt.Sprintf(", %s to %s/s", format.PerSecond(l.RatePerSecond), format.PerSecond(l.RampTo))
	case l.RatePerSecond > 0:
		text += fmt.Sprintf(", %s/s, %s", format.PerSecond(l.RatePerSecond), l.Arrivals)
	}
	if c.WarmUp.Value > 0 {
		text += fmt.Sprintf(", after %v of warm-up", roundedDuration(c.WarmUp.Value/1e3))
	}
	return text
}

func roundedDuration(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * 1e9)).Round(10 * time.Millisecond)
}

func describeFailed(failed, requests int64) string {
	if failed > 0 {
		return fmt.Sprintf("%s failed (%s)", units.Thousands(failed), format.Percent(float64(failed)/float64(max(1, requests))))
	}
	return "none failed"
}

// responseTimes prints service times and their spread, and for an open loop response times, too.
func (t *loadText) responseTimes(c *matrix.Cell) {
	if c.Response != nil {
		t.line("response", "%s", describePercentiles(c.Response))
	}
	t.line("latency", "%s", describePercentiles(&c.Service))
	if c.Messages != nil {
		t.line("messages", "%s answered, times: %s", units.Thousands(c.Messages.Requests), describePercentiles(&c.Messages.Times))
	}
	t.spreadBars(c.Spread)
}

// describePercentiles lists mean, maximum and all percentiles with enough requests.
func describePercentiles(l *matrix.Latencies) string {
	if l.Max.Value == 0 {
		return "no answers"
	}
	parts := []string{"mean " + format.Micros(l.Mean.Value)}
	for _, q := range matrix.Quantiles {
		if value := q.FigureIn(l).Value; format.Finite(value) {
			parts = append(parts, q.Tag.Get("label")+" "+format.Micros(value))
		}
	}
	return strings.Join(append(parts, "max "+format.Micros(l.Max.Value)), ", ")
}

// spreadBars prints a bar per range of response times, with the number of requests.
func (t *loadText) spreadBars(steps []matrix.SpreadStep) {
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
		t.line("spread", "up to %7s %s %s", format.Micros(steps[(i+1)*each-1].Until), bar, units.Thousands(n))
	}
}

func describeCost(cpu *matrix.Figure, end *matrix.End) string {
	if cpu == nil || end.Cores == nil {
		return "unknown cost: the process is on another machine, or was not found"
	}
	text := fmt.Sprintf("%s of CPU per request, %s CPUs", format.Micros(cpu.Value), format.ThreeDigits(end.Cores.Value))
	if end.RSS != nil {
		text += ", " + format.ByteSize(int(end.RSS.Value)) + " of memory"
	}
	return text
}

func fleetClientLine(c *matrix.FleetClient) string {
	text := fmt.Sprintf("%s: %s, %s/s", c.Agent, describeCount(c.Clients), format.PerSecond(c.Throughput))
	if c.P99 != nil {
		text += ", P99 " + format.Micros(*c.P99)
	}
	if c.Busy != nil {
		text += ", " + format.Percent(*c.Busy) + " of its CPUs busy"
	}
	return text + ", " + string(c.Level)
}

// WriteTraces lists the traces of the slowest requests, if there are any.
func WriteTraces(w io.Writer, s *analysis.Summary) error {
	const most = 5 // the JSON has all traces
	var out loadText
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.Traced == 0 {
			continue
		}
		of := ""
		if len(s.Cells) > 1 {
			of = " with " + DescribeClients(c)
		}
		out.line("traces", "%s of %s requests%s carry a traceparent header; the slowest of these:", units.Thousands(c.Traced), units.Thousands(c.Requests), of)
		for _, t := range c.Traces[:min(len(c.Traces), most)] {
			failed := ""
			if t.Failed {
				failed = ", failed"
			}
			out.line("traces", "%s %s%s", t.ID, format.Micros(t.LatencyUS), failed)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
