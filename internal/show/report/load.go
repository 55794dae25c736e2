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

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// IsLoad reports whether a run is one trial of a service of the user's own, which is shown
// by itself, and not as a line of a table.
func IsLoad(run *Run) bool {
	return len(run.Records) == 1 && run.Records[0].Cell.IsService() && run.Records[0].Failure == ""
}

// WriteLoad shows the trial of a service: how fast, how it failed, what it cost.
func WriteLoad(w io.Writer, run *Run, terminal Terminal) error {
	r := run.Records[0]
	var out loadText
	out.line("load", "%s", r.Cell.Target+", "+loadOfService(r))
	out.line("requests", "%s in %v: %s/s, %s", units.Thousands(r.Requests), wholeTime(r.WindowNS), perSecond(r.ThroughputPerSecond()), failedOf(r))
	if r.Failed() < r.Requests { // otherwise there is no time of an answer
		if err := out.times(r); err != nil {
			return err
		}
	}
	if err := out.named(r); err != nil {
		return err
	}
	for _, s := range namedStatuses(&r.Cell, r.Statuses) {
		out.line("status", "%s: %s", s.Name, units.Thousands(s.Count))
	}
	for _, e := range r.Errors {
		class := e.Class
		if e.Code != "" && e.Code != codes.Unknown.String() { // which HTTP does not have
			class += " (" + e.Code + ")"
		}
		out.line("error", "%s of %s: %s", units.Thousands(e.Count), class, shortLine(e.Example))
	}
	if c := r.Checking; c != nil && c.Answers > 0 {
		out.line("checking", "%s an answer, between calls; %s of the answers were looked at by all conditions",
			micros(float64(c.TookNS)/1e3/float64(c.Answers)), percent(float64(c.Whole)/float64(c.Answers)))
	}
	out.line("connections", "%d opened, %d of them in the window", r.Connections.Opened, r.Connections.During)
	if s := r.Search; s != nil {
		out.line("goal", "%s: kept at %s/s, missed at %s/s", r.Cell.Load.Goal, perSecond(s.KeptPerSecond), perSecond(s.MissedPerSecond))
	}
	out.fleet(run)
	out.line("client", "%s", cost(r, &r.Client))
	out.line("service", "%s", cost(r, &r.Server))
	out.checks(r, terminal)
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
func (t *loadText) checks(r *record.Record, terminal Terminal) {
	var notes []string
	for _, c := range r.Checks {
		switch text := c.Name + ": " + c.Detail; c.Level {
		case record.Invalid:
			t.paragraph("INVALID", text, terminal)
		case record.Warning:
			notes = append(notes, text)
		}
	}
	for _, text := range slices.Concat(notes, r.Warnings) {
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
func loadOfService(r *record.Record) string {
	text := fmt.Sprintf("%s (%s)", cellName(&r.Cell), r.Cell.Connection)
	l := r.Cell.Load
	switch {
	case l.RampTo > 0:
		text += fmt.Sprintf(", %s to %s/s", perSecond(l.RatePerSecond), perSecond(l.RampTo))
	case l.RatePerSecond > 0:
		text += fmt.Sprintf(", %s/s, %s", perSecond(l.RatePerSecond), l.Arrivals)
	}
	if r.WarmUp.TookNS > 0 {
		text += fmt.Sprintf(", after %v of warm-up", wholeTime(r.WarmUp.TookNS))
	}
	return text
}

func wholeTime(ns int64) time.Duration { return time.Duration(ns).Round(10 * time.Millisecond) }

func failedOf(r *record.Record) string {
	if failed := r.Failed(); failed > 0 {
		return fmt.Sprintf("%s failed (%s)", units.Thousands(failed), percent(float64(failed)/float64(max(1, r.Requests))))
	}
	return "none failed"
}

// times shows the response time, from when a request was due, and in an open loop the
// service time below it, and how the times are spread.
func (t *loadText) times(r *record.Record) error {
	service, err := r.Service.Decode()
	if err != nil {
		return err
	}
	shown := service
	if r.Response != nil {
		if shown, err = r.Response.Decode(); err != nil {
			return err
		}
		t.line("response", "%s", percentiles(shown))
	}
	t.line("latency", "%s", percentiles(service))
	if r.Messages != nil {
		messages, err := r.Messages.Decode()
		if err != nil {
			return err
		}
		t.line("messages", "%s answered: each %s", units.Thousands(messages.Count()), percentiles(messages))
	}
	if shown.Count() > 0 {
		t.spread(shown)
	}
	return nil
}

// named shows the calls by name, where they have one.
func (t *loadText) named(r *record.Record) error {
	for _, one := range r.Named {
		shown := one.Service
		if one.Response != nil {
			shown = *one.Response
		}
		h, err := shown.Decode()
		if err != nil {
			return err
		}
		failed := "none failed"
		if one.Failed > 0 {
			failed = fmt.Sprintf("%s failed (%s)", units.Thousands(one.Failed), percent(float64(one.Failed)/float64(max(1, one.Requests))))
		}
		t.line("step", "%s", one.Name)
		t.line("step", "    %s requests: %s/s, %s", units.Thousands(one.Requests), perSecond(float64(one.CompletedWell)/(float64(r.WindowNS)/1e9)), failed)
		t.line("step", "    %s", percentiles(h))
	}
	return nil
}

// tenBeyond is how many requests must lie beyond a percentile for it to be shown.
const tenBeyond = 10

func percentiles(h *latency.Histogram) string {
	if h.Count() == 0 {
		return "none was answered"
	}
	of := func(d time.Duration) string { return micros(float64(d) / 1e3) }
	parts := []string{"mean " + of(h.Mean())}
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 0.9999} {
		if float64(h.Count())*(1-q) >= tenBeyond || q == 0.5 {
			parts = append(parts, fmt.Sprintf("P%g %s", 100*q, of(h.Quantile(q))))
		}
	}
	return strings.Join(append(parts, "max "+of(h.Max())), ", ")
}

// spread draws how many requests took how long, in steps of a factor.
func (t *loadText) spread(h *latency.Histogram) {
	const rows, widest = 10, 40
	low, high := float64(max(1, h.Min())), float64(max(1, h.Max()))
	bounds := make([]float64, rows)
	for i := range bounds {
		bounds[i] = low * math.Pow(high/low, float64(i+1)/rows)
	}
	counts := make([]int64, rows)
	for d, n := range h.Counts() {
		i := slices.IndexFunc(bounds, func(b float64) bool { return float64(d) <= b })
		if i < 0 {
			i = rows - 1
		}
		counts[i] += n
	}
	most := slices.Max(counts)
	for i, n := range counts {
		bar := strings.Repeat("■", int(float64(widest)*float64(n)/float64(most)))
		t.line("spread", "up to %7s %s %s", micros(bounds[i]/1e3), bar, units.Thousands(n))
	}
}

// cost is what an end took.
func cost(r *record.Record, p *record.Process) string {
	spent, known := p.CPUNS()
	if !known || r.Requests == 0 {
		return "its cost is not known: it does not run here, or cannot be seen"
	}
	text := fmt.Sprintf("%s of CPU a request, %s CPUs", micros(float64(spent)/1e3/float64(r.Requests)), significant(float64(spent)/float64(r.WindowNS)))
	if p.RSSBytes != nil {
		text += ", " + byteSize(int(*p.RSSBytes)) + " of memory"
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
