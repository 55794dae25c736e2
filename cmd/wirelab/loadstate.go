package main

import (
	"fmt"
	"strings"
	"time"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/show/report"
)

// loadState is what a load view shows. Its methods are pure.
type loadState struct {
	title    string
	duration time.Duration // 0: bounded by requests
	trials   int
	keys     bool // are read

	running    bool
	done       int       // trials
	began      time.Time // the trial
	opened     time.Time // its window, about
	now        lab.Progress
	rates      []float64 // a second, of each report
	seenAt     time.Time // the last report
	seen       int64     // calls ended then
	last       string    // outcome
	wantsPause bool
	ending     bool
}

// mostRates bounds the sparkline.
const mostRates = 60

func (s *loadState) begins(now time.Time) {
	s.running, s.began, s.opened = true, now, time.Time{}
	s.now, s.rates, s.seenAt, s.seen = lab.Progress{}, nil, now, 0
}

func (s *loadState) ends(outcome string) {
	s.running, s.last = false, outcome
	s.done++
}

// take takes a report of the client.
func (s *loadState) take(p lab.Progress, at time.Time) {
	live := s.now.Live
	if p.Live != nil { // the last one of a client is without
		live = p.Live
		if p.Live.Total.Ended < s.seen { // another load begins, as of a search
			s.seen = 0
		}
		if took := at.Sub(s.seenAt); took > 0 {
			rate := float64(p.Live.Total.Ended-s.seen) / took.Seconds()
			if p.Live.InFlight == load.UnknownInFlight && p.Live.SpanNS > 0 { // the total grows in steps of a second
				rate = float64(p.Live.Ended) / time.Duration(p.Live.SpanNS).Seconds()
			}
			s.rates = append(s.rates, rate)
			s.rates = s.rates[max(0, len(s.rates)-mostRates):]
		}
		s.seenAt, s.seen = at, p.Live.Total.Ended
	}
	if !p.Warming && s.opened.IsZero() {
		s.opened = at
	}
	s.now, s.now.Live = p, live
}

// lines are those of the view, none wider than the terminal.
func (s *loadState) lines(terminal report.Terminal, now time.Time) []string {
	const bold, faint = "1", "2" // of SGR
	lines := []string{styled(s.title, bold, terminal), styled(s.bar()+" "+s.progressed(now), "", terminal)}
	if s.last != "" && (s.trials > 1 || !s.running) {
		lines = append(lines, styled("last   "+s.last, faint, terminal))
	}
	if !s.running && s.done == s.trials {
		return lines // what was measured follows
	}
	if live := s.now.Live; live != nil {
		lines = append(lines, styled("now    "+recent(live), "", terminal), styled("total  "+total(live), "", terminal))
		if len(live.Failures) > 0 {
			lines = append(lines, styled("       "+failures(live), "", terminal))
		}
		lines = append(lines, styled(s.sparkline(terminal.Width), "", terminal))
		for _, line := range histogram(live.Histogram, terminal.Width) {
			lines = append(lines, styled(line, faint, terminal))
		}
	}
	if help := s.help(); help != "" {
		lines = append(lines, styled(help, faint, terminal))
	}
	return lines
}

// plain is a line for where nothing is drawn; empty: nothing runs.
func (s *loadState) plain(now time.Time) string {
	if !s.running {
		return ""
	}
	line := s.progressed(now)
	if live := s.now.Live; live != nil {
		line += ": " + recent(live) + "; " + total(live)
	}
	return line
}

func (s *loadState) bar() string {
	const cells = 24
	full := min(cells, int(s.fraction()*cells))
	return "[" + strings.Repeat("■", full) + strings.Repeat("·", cells-full) + "]"
}

// fraction is how much of all trials is over.
func (s *loadState) fraction() float64 {
	over := float64(s.done)
	if s.running {
		over += s.now.Fraction
	}
	return over / float64(max(1, s.trials))
}

func (s *loadState) progressed(now time.Time) string {
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
		return fmt.Sprintf("%s%v, %s", of, elapsed, s.left(now))
	}
}

// left is the time until the window ends, which of one bounded by requests is estimated.
func (s *loadState) left(now time.Time) string {
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

func (s *loadState) help() string {
	switch {
	case s.ending:
		return "ending; Ctrl-C again gives up what was measured"
	case !s.keys:
		return ""
	case s.wantsPause:
		return "p go on   q end and report"
	default:
		return "p pause   q end and report"
	}
}

// sparkline draws the rate from nothing to its highest.
func (s *loadState) sparkline(width int) string {
	most := 0.0
	for _, rate := range s.rates {
		most = max(most, rate)
	}
	const label, legend = "rate   ", 24
	rates := s.rates[max(0, len(s.rates)-max(0, width-len(label)-legend)):]
	heights := []rune("▁▂▃▄▅▆▇█")
	var signs strings.Builder
	for _, rate := range rates {
		if most == 0 {
			signs.WriteRune(heights[0])
			continue
		}
		signs.WriteRune(heights[int(rate/most*float64(len(heights)-1)+0.5)])
	}
	return fmt.Sprintf("%s%s up to %s/s", label, signs.String(), units.Thousands(int64(most)))
}

// recent describes the last seconds.
func recent(live *load.Live) string {
	if live.SpanNS <= 0 {
		return "the first second"
	}
	rate := units.Thousands(int64(float64(live.Ended)/time.Duration(live.SpanNS).Seconds() + 0.5))
	if live.Ended == 0 {
		return rate + "/s"
	}
	return fmt.Sprintf("%s/s, p50 %s, p90 %s, p99 %s, max %s", rate,
		units.Time(float64(live.P50NS)), units.Time(float64(live.P90NS)), units.Time(float64(live.P99NS)), units.Time(float64(live.MaxNS)))
}

func total(live *load.Live) string {
	text := fmt.Sprintf("%s calls, %s failed", units.Thousands(live.Total.Ended), units.Thousands(live.Total.Failed))
	if live.InFlight != load.UnknownInFlight {
		text += fmt.Sprintf(", %s in flight", units.Thousands(live.InFlight))
	}
	return text
}

// failures names the kinds of them, the most frequent first.
func failures(live *load.Live) string {
	const most = 3
	var kinds []string
	for _, f := range live.Failures[:min(len(live.Failures), most)] {
		kinds = append(kinds, fmt.Sprintf("%s× %s", units.Thousands(f.Count), strings.Trim(f.Code+" "+f.Class, " ")))
	}
	text := strings.Join(kinds, ", ")
	if more := len(live.Failures) - most; more > 0 {
		text += fmt.Sprintf(" and %d kinds more", more)
	}
	return text
}

// mostBins leaves room on a terminal of 24 lines. What is shorter than them goes into
// the first.
const mostBins = 12

// histogram draws a line a bin.
func histogram(bins []load.LiveBin, width int) []string {
	if len(bins) > mostBins {
		merged := bins[len(bins)-mostBins:]
		first := merged[0]
		for _, b := range bins[:len(bins)-mostBins] {
			first.Count += b.Count
		}
		bins = append([]load.LiveBin{first}, merged[1:]...)
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
