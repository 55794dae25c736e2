package view

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/show/report/format"
)

// A Load describes the load of a service to its view.
type Load struct {
	Title    string        // the called service
	Duration time.Duration // length of the window; 0 means that a number of requests ends it
	Trials   int
	// Pauser is paused by the key p. If nil, the key does nothing.
	Pauser Pauser
	// End is called by q and Ctrl-C. If nil, they interrupt this process.
	End func()
	// Ending is closed when the run must end; the view then restores the terminal. It may be nil.
	Ending <-chan struct{}
}

// A Pauser can stop sending requests and continue later.
type Pauser interface {
	Pause()
	Resume()
}

// NewLoad starts a view of a load. It reads keys if w and stdin are terminals. Progress events must
// have Live. Defer Close, which restores the terminal.
func NewLoad(w io.Writer, stdin *os.File, o Load) *View {
	c := &loadContent{title: o.Title, duration: o.Duration, trials: o.Trials}
	v := newView(w, format.TerminalOf(w).Width > 0, c)
	if o.End == nil {
		o.End = interruptSelf
	}
	if v.draws {
		v.keys = readKeys(stdin, o.Ending, func(key byte) bool { return v.pressKey(key, c, &o) })
		v.applyEvent(func(time.Time) string { c.keys = v.keys != nil; return "" })
	}
	go v.drawUntilClosed(o.Ending) // ends with Close
	return v
}

// pressKey executes a key's action, and reports whether to read more keys.
func (v *View) pressKey(key byte, c *loadContent, o *Load) (more bool) {
	switch key {
	case 'p', ' ':
		if o.Pauser == nil {
			return true
		}
		v.applyEvent(func(time.Time) string {
			if c.wantsPause = !c.wantsPause; c.wantsPause {
				o.Pauser.Pause()
			} else {
				o.Pauser.Resume()
			}
			return ""
		})
	case 'q', ctrlC:
		v.applyEvent(c.endRequested)
		o.End()
		return false
	}
	return true
}

type loadContent struct {
	title    string
	duration time.Duration // 0 means that a number of requests ends the load
	trials   int
	keys     bool // whether keys are read

	running    bool
	done       int       // number of finished trials
	began      time.Time // start of the trial
	opened     time.Time // approximate start of the window
	now        live.Progress
	rates      rateLine
	first      live.Progress // first report of the trial with live figures
	seenAt     time.Time     // time of the last report
	seen       int64         // number of ended calls in the last report
	last       string        // outcome of the last trial
	wantsPause bool
	ending     bool
}

func (s *loadContent) trialBegins(_ record.PlannedTrial, now time.Time) string {
	s.running, s.began, s.opened = true, now, time.Time{}
	s.now, s.first, s.rates, s.seenAt, s.seen = live.Progress{}, live.Progress{}, rateLine{}, now, 0
	return ""
}

func (s *loadContent) trialEnds(r *record.Record, _ time.Time) string {
	s.done++
	s.running, s.last = false, describeRun(r, s.done)
	return s.unlessSingle(s.last)
}

// describeRun returns the figures of one run of a load. What they are worth is said below all of them.
func describeRun(r *record.Record, number int) string {
	name := fmt.Sprintf("run %d, %d clients", number, r.Cell.Clients)
	if r.Probe != "" {
		name += ", probe " + r.Probe
	}
	if r.Failure != "" {
		return name + ": failed: " + r.Failure
	}
	return fmt.Sprintf("%s: %s/s, mean %s, %s failed", name, units.Number(r.ThroughputPerSecond()), units.Time(float64(r.Service.Sum)/float64(max(1, r.Service.Count))), units.Thousands(r.Failed()))
}

// unlessSingle returns the line, or "" for a single trial, whose figures are printed later.
func (s *loadContent) unlessSingle(line string) string {
	if s.trials > 1 {
		return line
	}
	return ""
}

func (s *loadContent) endRequested(time.Time) string {
	s.ending = true
	return ""
}

func (s *loadContent) progress(p live.Progress, at time.Time) string {
	calls := s.now.Live
	if p.Live != nil { // a client's last report has no Live
		calls = p.Live
		if p.Live.Total.Ended < s.seen { // a new load begins, for example in a search
			s.seen, s.first = 0, live.Progress{}
		}
		if s.first.Live == nil {
			s.first = p
		}
		if took := at.Sub(s.seenAt); took > 0 {
			rate := float64(p.Live.Total.Ended-s.seen) / took.Seconds()
			if p.Live.InFlight == live.UnknownInFlight && p.Live.SpanNS > 0 { // the total is updated once per second
				rate = float64(p.Live.Ended) / time.Duration(p.Live.SpanNS).Seconds()
			}
			s.rates.add(rate, took)
		}
		s.seenAt, s.seen = at, p.Live.Total.Ended
	}
	if !p.Warming && s.opened.IsZero() {
		s.opened = at
	}
	if p.Live == nil {
		p.ClientCPU, p.ServerCPU = s.now.ClientCPU, s.now.ServerCPU
	}
	s.now, s.now.Live = p, calls
	return ""
}

// lines returns at most 23 lines, which fit a terminal of 24.
func (s *loadContent) lines(terminal format.Terminal, now time.Time) (lines []string) {
	if !s.running && s.done == s.trials {
		return nil // the results follow
	}
	show := func(style format.Style, label, text string) {
		lines = append(lines, styledLine(label+text, style, terminal))
	}
	show(format.Bold, "", s.title)
	show(format.Normal, progressBar(s.doneFraction())+" ", s.describeProgress(now))
	if s.last != "" {
		show(format.Faint, "last   ", s.last)
	}
	if calls := s.now.Live; calls != nil {
		show(format.Normal, "rate   ", s.rates.describe())
		show(format.Normal, "now    ", describeRecent(calls))
		show(format.Normal, "total  ", describeTotal(calls))
		if calls.Total.Failed > 0 {
			show(format.Red, "failed ", describeFailures(calls))
		}
		if cost := s.describeCost(); cost != "" {
			show(format.Normal, "CPU    ", cost)
		}
		for _, line := range histogramLines(calls.Histogram, terminal.Width) {
			show(format.Faint, "", line)
		}
	}
	lines = append(lines, agentLines(s.now.Agents, maxAgentRows, terminal)...)
	if help := s.help(); help != "" {
		show(format.Faint, "", help)
	}
	return lines
}

// describeCost returns the CPU time per request of both ends since the first report, or "" if it is
// unknown.
func (s *loadContent) describeCost() string {
	calls := s.now.Live.Total.Ended
	if s.first.Live != nil {
		calls -= s.first.Live.Total.Ended
	}
	if calls <= 0 || s.now.ClientCPU <= 0 {
		return ""
	}
	each := func(now, first time.Duration) string { return units.Time(float64(now-first) / float64(calls)) }
	text := "client " + each(s.now.ClientCPU, s.first.ClientCPU)
	if s.now.ServerCPU > 0 {
		text += ", service " + each(s.now.ServerCPU, s.first.ServerCPU)
	}
	return text + " per request"
}

// plainLine returns one line, or "" between trials.
func (s *loadContent) plainLine(now time.Time) string {
	if !s.running {
		return ""
	}
	line := s.describeProgress(now)
	if calls := s.now.Live; calls != nil {
		line += ": " + describeRecent(calls) + "; " + describeTotal(calls)
	}
	if slices.ContainsFunc(s.now.Agents, func(a live.Agent) bool { return a.Health != live.Fine }) {
		line += "; " + summarizeAgents(s.now.Agents)
	}
	return line
}

func (s *loadContent) doneFraction() float64 {
	over := float64(s.done)
	if s.running {
		over += s.now.Fraction
	}
	return over / float64(max(1, s.trials))
}

func (s *loadContent) describeProgress(now time.Time) string {
	of := ""
	if s.trials > 1 {
		of = fmt.Sprintf("%d of %d, ", min(s.done+1, s.trials), s.trials)
	}
	elapsed := now.Sub(s.began).Round(100 * time.Millisecond)
	switch {
	case s.began.IsZero():
		return of + "starting"
	case !s.running:
		return of + "done"
	case s.now.Fraction >= 1 || s.ending:
		return fmt.Sprintf("%s%v, waiting for the last calls", of, elapsed)
	case s.now.Paused:
		return fmt.Sprintf("%s%v, paused", of, elapsed)
	case s.now.Done == 0 && s.now.Live == nil:
		return of + "starting"
	case s.now.Warming:
		return fmt.Sprintf("%s%v, warming up", of, elapsed)
	default:
		return fmt.Sprintf("%s%v, %s", of, elapsed, s.timeLeft(now))
	}
}

// timeLeft returns the rest of the window's time. It is an estimate if the load ends by requests.
func (s *loadContent) timeLeft(now time.Time) string {
	share := s.now.Fraction
	switch {
	case s.duration > 0:
		return fmt.Sprintf("%v left", time.Duration((1-share)*float64(s.duration)).Round(100*time.Millisecond))
	case share > 0:
		return fmt.Sprintf("about %v left", time.Duration((1-share)/share*float64(now.Sub(s.opened))).Round(100*time.Millisecond))
	default:
		return "the window has just opened"
	}
}

func (s *loadContent) help() string {
	switch {
	case s.ending:
		return "ending; press Ctrl-C again to discard the measurement"
	case !s.keys:
		return ""
	case s.wantsPause:
		return "p continue   q end and report"
	default:
		return "p pause   q end and report"
	}
}

// A rateLine holds the rates since a trial began. All its signs cover equal numbers of reports.
type rateLine struct {
	rates   []float64
	each    int           // reports per sign
	took    time.Duration // mean time per report
	pending []float64     // rates of the reports that have no sign yet
	reports int
}

// maxRates is the number of signs at which two neighbours become one.
const maxRates = 40

func (r *rateLine) add(rate float64, took time.Duration) {
	r.each = max(1, r.each)
	r.took = (r.took*time.Duration(r.reports) + took) / time.Duration(r.reports+1)
	r.reports++
	if r.pending = append(r.pending, rate); len(r.pending) < r.each {
		return
	}
	sum := 0.0
	for _, rate := range r.pending {
		sum += rate
	}
	r.rates, r.pending = append(r.rates, sum/float64(len(r.pending))), nil
	if len(r.rates) < maxRates {
		return
	}
	for i := range maxRates / 2 {
		r.rates[i] = (r.rates[2*i] + r.rates[2*i+1]) / 2
	}
	r.rates, r.each = r.rates[:maxRates/2], 2*r.each
}

// describe draws the rates on a scale from zero to the highest.
func (r *rateLine) describe() string {
	each := (time.Duration(r.each) * r.took).Round(10 * time.Millisecond)
	return fmt.Sprintf("%s up to %s/s, %v each", format.Spark(r.rates), units.Number(slices.Max(append([]float64{0}, r.rates...))), each)
}

func describeRecent(calls *live.Calls) string {
	if calls.SpanNS <= 0 {
		return "rates follow after one second"
	}
	rate := units.Thousands(int64(float64(calls.Ended)/time.Duration(calls.SpanNS).Seconds() + 0.5))
	if calls.Ended == 0 {
		return rate + "/s"
	}
	return fmt.Sprintf("%s/s   P50 %s   P90 %s   P99 %s   max %s", rate,
		units.Time(float64(calls.P50NS)), units.Time(float64(calls.P90NS)), units.Time(float64(calls.P99NS)), units.Time(float64(calls.MaxNS)))
}

func describeTotal(calls *live.Calls) string {
	text := fmt.Sprintf("%s ok, %s failed", units.Thousands(calls.Total.Ended-calls.Total.Failed), units.Thousands(calls.Total.Failed))
	if calls.Total.Failed > 0 {
		text += " (" + units.Number(100*float64(calls.Total.Failed)/float64(calls.Total.Ended)) + " %)"
	}
	if calls.InFlight != live.UnknownInFlight {
		text += fmt.Sprintf(", %s in flight", units.Thousands(calls.InFlight))
	}
	return text
}

func describeFailures(calls *live.Calls) string {
	return format.FirstNames(lists.Map(calls.Failures, func(f record.ErrorCount) string {
		if code, err := strconv.Atoi(f.Code); err == nil && http.StatusText(code) != "" {
			return fmt.Sprintf("%s× %s %s", units.Thousands(f.Count), f.Code, http.StatusText(code))
		}
		return fmt.Sprintf("%s× %s", units.Thousands(f.Count), strings.TrimSpace(strings.TrimPrefix(f.Code, codes.Unknown.String())+" "+f.Class))
	}), 3)
}

// maxBins is the largest number of bins shown. The first bin then includes shorter times.
const maxBins = 13

func histogramLines(bins []live.Bin, width int) []string {
	if len(bins) > maxBins {
		merged := bins[len(bins)-maxBins:]
		first := merged[0]
		for _, b := range bins[:len(bins)-maxBins] {
			first.Count += b.Count
		}
		bins = append([]live.Bin{first}, merged[1:]...)
	}
	var sum, most int64
	for _, b := range bins {
		sum, most = sum+b.Count, max(most, b.Count)
	}
	if most == 0 {
		return nil
	}
	const label, figures = 14, 20
	room := min(50, max(1, width-label-figures))
	lines := make([]string, 0, len(bins))
	for _, b := range bins {
		upTo := "above"
		if b.UpToNS > 0 {
			upTo = "≤ " + units.Time(float64(b.UpToNS))
		}
		full := int(float64(b.Count) / float64(most) * float64(room))
		bar := strings.Repeat("█", full)
		if full == 0 && b.Count > 0 {
			bar = "▏"
		}
		lines = append(lines, fmt.Sprintf("%*s  %-*s %s", label-2, upTo, room, bar, units.Thousands(b.Count)))
	}
	return lines
}
