package view

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/show/report/format"
)

// A Run describes a run of trials to its view.
type Run struct {
	// Title is the first line: the part of the run that is measured. It may be empty.
	Title string
	// Plan holds the cells of the run.
	Plan  []scenario.PlannedCell
	Order []record.PlannedTrial // trials of Plan, each with the key of its cell
	// Progress returns the progress of the run. It is called when a trial ends.
	Progress func() RunProgress
}

// A RunProgress holds the number of finished trials, and the estimated time for the rest.
type RunProgress struct {
	Done, Trials int
	Left, Took   time.Duration
}

// NewRun starts a view of a run: on a terminal a growing table, elsewhere one line per trial.
func NewRun(w io.Writer, o Run) *View {
	v := newView(w, format.TerminalOf(w).Width > 0, newRunContent(o, time.Now()))
	go v.drawUntilClosed(nil) // ends with Close
	return v
}

type runContent struct {
	title      string
	progressOf func() RunProgress
	at         RunProgress
	ending     time.Time // estimated end
	invalid    int
	cell       string
	now        live.Progress
	agents     []live.Agent
	last       string
	sparks     *sparklines
}

func newRunContent(o Run, now time.Time) *runContent {
	c := &runContent{title: o.Title, progressOf: o.Progress, sparks: newSparks(o.Plan, o.Order)}
	c.update(now)
	return c
}

func (c *runContent) update(now time.Time) {
	c.at = c.progressOf()
	c.ending = now.Add(c.at.Left)
}

func (c *runContent) trialBegins(trial record.PlannedTrial, _ time.Time) string {
	c.cell, c.now = fmt.Sprintf("%s (repeat %d)", trial.Cell, trial.Repeat), live.Progress{}
	return ""
}

func (c *runContent) progress(p live.Progress, _ time.Time) string {
	c.now = p
	if len(p.Agents) > 0 {
		c.agents = p.Agents
	}
	return ""
}

func (c *runContent) trialEnds(r *record.Record, now time.Time) string {
	c.update(now)
	c.last = describeTrial(r)
	if !r.Valid() {
		c.invalid++
	}
	c.sparks.add(r)
	return fmt.Sprintf("%d/%d %s, %s", c.at.Done, c.at.Trials, c.last, c.timeLeft(now))
}

func (c *runContent) plainLine(time.Time) string { return "" }

func (c *runContent) endRequested(time.Time) string { return "" }

func (c *runContent) lines(terminal format.Terminal, now time.Time) []string {
	var lines []string
	if c.title != "" {
		lines = append(lines, styledLine(c.title, format.Bold, terminal))
	}
	done := c.at.Done == c.at.Trials
	refused := ""
	if c.invalid > 0 {
		refused = fmt.Sprintf(" (%d invalid)", c.invalid)
	}
	share := (float64(c.at.Done) + c.now.Fraction) / float64(max(1, c.at.Trials))
	lines = append(lines, styledLine(fmt.Sprintf("%s %d of %d trials%s, %s", progressBar(share), c.at.Done, c.at.Trials, refused, c.timeLeft(now)), format.Normal, terminal))
	if !done {
		lines = append(lines, styledLine("now   "+c.cell+c.describeState(), format.Normal, terminal))
	}
	if c.last != "" {
		lines = append(lines, styledLine("last  "+c.last, format.Faint, terminal))
	}
	if done {
		return lines // the table follows
	}
	sparks := c.sparks.lines(terminal.Width)
	const most = 23 // a terminal of 24 lines keeps a line for the cursor
	rows := min(maxAgentRows, most-len(lines)-len(sparks)-2)
	lines = append(lines, agentLines(c.agents, rows, terminal)...)
	for _, line := range sparks {
		lines = append(lines, styledLine(line, format.Faint, terminal))
	}
	return lines
}

func (c *runContent) timeLeft(now time.Time) string {
	if c.at.Done == c.at.Trials {
		return fmt.Sprintf("took %v", c.at.Took.Round(time.Second))
	}
	return fmt.Sprintf("about %v left", max(0, c.ending.Sub(now)).Round(time.Second))
}

func (c *runContent) describeState() string {
	switch {
	case c.now.Done == 0:
		return ": starting"
	case c.now.Warming:
		return fmt.Sprintf(": warming up, %d requests", c.now.Done)
	default:
		return fmt.Sprintf(": %.0f %%, %d requests", 100*c.now.Fraction, c.now.Done)
	}
}

// sparklines holds a line per variant with a sign per cell. A higher sign means more throughput.
type sparklines struct {
	rows  []sparkRow
	place map[string][2]int // row and position of a cell, by its key
	hides int               // number of variants without a row
}

type sparkRow struct {
	variant string
	cells   []sparkCell
}

type sparkCell struct {
	rate    float64 // throughput of the last valid trial; 0 if no trial was valid
	refused bool    // trials were measured, but none was valid
}

// maxSparkRows is the largest number of rows on a terminal of 24 lines.
const maxSparkRows = 8

func newSparks(plan []scenario.PlannedCell, order []record.PlannedTrial) *sparklines {
	type planned struct {
		key  string
		cell scenario.Cell
	}
	var cells []planned
	var parts, variants []string
	for i, t := range order {
		if c := plan[i].Cell; c.Probe == "" && !slices.ContainsFunc(cells, func(p planned) bool { return p.key == t.Cell }) {
			cells = append(cells, planned{t.Cell, c})
			parts, variants = append(parts, c.Part), append(variants, c.Variant.String())
		}
	}
	slices.SortStableFunc(cells, func(a, b planned) int {
		return cmp.Or(cmp.Compare(slices.Index(parts, a.cell.Part), slices.Index(parts, b.cell.Part)),
			cmp.Compare(a.cell.Size.Request, b.cell.Size.Request), cmp.Compare(a.cell.Size.Response, b.cell.Size.Response),
			cmp.Compare(a.cell.Clients, b.cell.Clients))
	})
	slices.Sort(variants)
	variants = slices.Compact(variants)
	s := &sparklines{place: map[string][2]int{}, hides: max(0, len(variants)-maxSparkRows)}
	for _, variant := range variants[:min(len(variants), maxSparkRows)] {
		row := sparkRow{variant: variant}
		for _, c := range cells {
			if c.cell.Variant.String() == variant {
				s.place[c.key] = [2]int{len(s.rows), len(row.cells)}
				row.cells = append(row.cells, sparkCell{})
			}
		}
		s.rows = append(s.rows, row)
	}
	return s
}

func (s *sparklines) add(r *record.Record) {
	at, shown := s.place[r.Cell.Key()]
	if !shown {
		return
	}
	cell := &s.rows[at[0]].cells[at[1]]
	if r.Failure != "" || !r.Valid() {
		cell.refused = cell.rate == 0
		return
	}
	*cell = sparkCell{rate: r.ThroughputPerSecond()}
}

// lines returns the rows and their legend, or nil if rows have a single sign.
func (s *sparklines) lines(width int) []string {
	least, most, longest, cells := math.Inf(1), 0.0, 0, 0
	for _, row := range s.rows {
		longest, cells = max(longest, len(row.variant)), max(cells, len(row.cells))
		for _, c := range row.cells {
			if c.rate > 0 {
				least, most = min(least, c.rate), max(most, c.rate)
			}
		}
	}
	if most == 0 || cells < 2 {
		return nil
	}
	const longestName = 32
	longest = min(longest, longestName)
	lines := make([]string, 0, len(s.rows)+1)
	for _, row := range s.rows {
		var signs []rune
		for _, c := range row.cells {
			signs = append(signs, c.sign(least, most))
		}
		signs = signs[:min(len(signs), max(0, width-longest-2))]
		lines = append(lines, fmt.Sprintf("%-*.*s  %s", longest, longest, row.variant, string(signs)))
	}
	legend := "requests/s, one sign per cell; ·: not measured yet, ×: invalid"
	if s.hides > 0 {
		legend += fmt.Sprintf("; %d more variants are hidden", s.hides)
	}
	return append(lines, legend)
}

// sign returns a higher sign for more throughput, on a logarithmic scale.
func (s sparkCell) sign(least, most float64) rune {
	switch {
	case s.refused:
		return '×'
	case s.rate == 0:
		return '·'
	case most == least:
		return format.SparkSign(1)
	}
	return format.SparkSign(math.Log(s.rate/least) / math.Log(most/least))
}
