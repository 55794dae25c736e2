package view

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/show/report/format"
)

// A Run describes a run of trials to its view.
type Run struct {
	// Look is the first line, which says the part of the run that is measured; "" has none.
	Look string
	// Plan has the cells of the run, and Order their keys.
	Plan  []scenario.Planned
	Order []record.PlannedTrial
	// Standing says how far the run has come. It is called when a trial ends.
	Standing func() Standing
}

// A Standing says how many trials of a run are done, and how long the others take.
type Standing struct {
	Done, Trials int
	Left, Took   time.Duration
}

// NewRun begins to show a run: on a terminal its table as it fills, elsewhere one line per trial.
func NewRun(w io.Writer, o Run) *View {
	v := newView(w, format.TerminalOf(w).Width > 0, newRunContent(o, time.Now()))
	go v.follow(nil) // ends with Close
	return v
}

// sayWaitsEvery keeps the lines of a run that waits few.
const sayWaitsEvery = 10 * time.Second

// runContent is the content of a run's view.
type runContent struct {
	look     string
	standing func() Standing
	at       Standing
	ending   time.Time // as estimated
	invalid  int
	cell     string
	now      live.Progress
	waiting  string // in words; "": a trial runs
	said     time.Time
	last     string
	sparks   *sparks
}

func newRunContent(o Run, now time.Time) *runContent {
	c := &runContent{look: o.Look, standing: o.Standing, sparks: newSparks(o.Plan, o.Order)}
	c.update(now)
	return c
}

func (c *runContent) update(now time.Time) {
	c.at = c.standing()
	c.ending = now.Add(c.at.Left)
}

func (c *runContent) begins(trial record.PlannedTrial, _ time.Time) string {
	c.cell, c.now, c.waiting = fmt.Sprintf("%s (repeat %d)", trial.Cell, trial.Repeat), live.Progress{}, ""
	return ""
}

func (c *runContent) progress(p live.Progress, _ time.Time) string {
	c.now = p
	return ""
}

func (c *runContent) ends(r *record.Record, now time.Time) string {
	c.update(now)
	c.last = outcome(r)
	if !r.Valid() {
		c.invalid++
	}
	c.sparks.take(r)
	return fmt.Sprintf("%d/%d %s, %s", c.at.Done, c.at.Trials, c.last, c.left(now))
}

func (c *runContent) setBack(r *record.Record, why record.Check) string {
	c.last = setBackInWords(r, why)
	return c.last
}

func (c *runContent) waits(w live.Waiting, now time.Time) string {
	c.waiting = waitingInWords(w)
	if now.Sub(c.said) < sayWaitsEvery {
		return ""
	}
	c.said = now
	return c.waiting
}

func (c *runContent) plain(time.Time) string { return "" }

func (c *runContent) toldToEnd(time.Time) string { return "" }

func (c *runContent) lines(terminal format.Terminal, now time.Time) []string {
	var lines []string
	if c.look != "" {
		lines = append(lines, styled(c.look, bold, terminal))
	}
	done := c.at.Done == c.at.Trials
	share := (float64(c.at.Done) + c.now.Fraction) / float64(max(1, c.at.Trials))
	lines = append(lines, styled(fmt.Sprintf("%s %d of %d trials%s, %s", bar(share), c.at.Done, c.at.Trials, c.refused(), c.left(now)), "", terminal))
	if !done {
		lines = append(lines, styled("now   "+cmp.Or(c.waiting, c.cell+c.state()), "", terminal))
	}
	if c.last != "" {
		lines = append(lines, styled("last  "+c.last, faint, terminal))
	}
	if done {
		return lines // the table follows
	}
	for _, line := range c.sparks.lines(terminal.Width) {
		lines = append(lines, styled(line, faint, terminal))
	}
	return lines
}

func (c *runContent) refused() string {
	if c.invalid == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d invalid)", c.invalid)
}

func (c *runContent) left(now time.Time) string {
	if c.at.Done == c.at.Trials {
		return fmt.Sprintf("took %v", c.at.Took.Round(time.Second))
	}
	return fmt.Sprintf("about %v left", max(0, c.ending.Sub(now)).Round(time.Second))
}

func (c *runContent) state() string {
	switch {
	case c.now.Done == 0:
		return ": starting"
	case c.now.Warming:
		return fmt.Sprintf(": warming up, %d requests", c.now.Done)
	default:
		return fmt.Sprintf(": %.0f %%, %d requests", 100*c.now.Fraction, c.now.Done)
	}
}
