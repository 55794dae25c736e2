package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"wirelab.dev/internal/lab"
	"wirelab.dev/internal/record"
	"wirelab.dev/internal/report"
	"wirelab.dev/internal/scenario"
)

// framesPerSecond is low, because drawing costs CPU on the machine under test.
const framesPerSecond = 2

// live shows the run on a terminal, a few lines that redraw themselves. It
// takes no input: Ctrl-C stays the signal that it is.
type live struct {
	program  *tea.Program
	ended    chan struct{}
	estimate *estimate
}

// The messages to the view.
type (
	beginning struct {
		number  int
		planned scenario.Planned
	}
	going  lab.Progress
	ending struct {
		number int
		words  string
		valid  bool
		left   time.Duration
	}
)

func newLive(w io.Writer, title string, e *estimate, terminal report.Terminal) *live {
	view := &liveView{title: title, trials: len(e.plan), width: terminal.Width, colour: terminal.Colour}
	l := &live{
		program:  tea.NewProgram(view, tea.WithOutput(w), tea.WithInput(nil), tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond)),
		ended:    make(chan struct{}),
		estimate: e,
	}
	go func() { // ends with close
		defer close(l.ended)
		// A view that cannot be drawn is no reason to stop measuring.
		_, _ = l.program.Run()
	}()
	return l
}

func (l *live) TrialBegins(number int, planned scenario.Planned) {
	l.estimate.begins()
	l.program.Send(beginning{number, planned})
}

func (l *live) TrialProgress(_ int, p lab.Progress) { l.program.Send(going(p)) }

func (l *live) TrialEnds(number int, r *record.Record) {
	l.estimate.ends(number)
	left, _ := l.estimate.remaining(number + 1)
	l.program.Send(ending{number: number, words: outcome(r), valid: r.Valid(), left: left})
}

func (l *live) close() {
	l.program.Quit()
	<-l.ended
}

// liveView is the state of the view.
type liveView struct {
	title   string
	trials  int
	width   int
	colour  bool
	done    int
	invalid int
	cell    string
	now     lab.Progress
	last    string
	ends    time.Time // foretold
}

func (v *liveView) Init() tea.Cmd { return everySecond() }

type second struct{}

func everySecond() tea.Cmd {
	return tea.Tick(time.Second, func(time.Time) tea.Msg { return second{} })
}

func (v *liveView) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch m := message.(type) {
	case tea.WindowSizeMsg:
		v.width = m.Width
	case beginning:
		v.cell, v.now = fmt.Sprintf("%s (repeat %d)", m.planned.Cell.Key(), m.planned.Repeat), lab.Progress{}
	case going:
		v.now = lab.Progress(m)
	case ending:
		v.done, v.last = m.number+1, m.words
		if !m.valid {
			v.invalid++
		}
		v.ends = time.Now().Add(m.left)
	case second:
		return v, everySecond()
	}
	return v, nil
}

func (v *liveView) View() tea.View {
	lines := []string{
		v.bold(v.title),
		fmt.Sprintf("%s %d of %d trials%s, %s", v.bar(), v.done, v.trials, v.refused(), v.left()),
	}
	if v.done < v.trials {
		lines = append(lines, "now   "+v.cell+v.state())
	}
	if v.last != "" {
		lines = append(lines, v.faint("last  "+v.last))
	}
	for i, line := range lines {
		lines[i] = lipgloss.NewStyle().MaxWidth(v.width).Render(line)
	}
	return tea.NewView(strings.Join(lines, "\n") + "\n")
}

func (v *liveView) bar() string {
	const cells = 24
	full := 0
	if v.trials > 0 {
		full = int((float64(v.done) + v.now.Fraction) / float64(v.trials) * cells)
	}
	full = min(cells, full)
	return "[" + strings.Repeat("■", full) + strings.Repeat("·", cells-full) + "]"
}

func (v *liveView) refused() string {
	if v.invalid == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d invalid)", v.invalid)
}

func (v *liveView) left() string {
	if v.ends.IsZero() {
		return "time left not known yet"
	}
	return fmt.Sprintf("about %v left", max(0, time.Until(v.ends)).Round(time.Second))
}

func (v *liveView) state() string {
	switch {
	case v.now.Done == 0:
		return ": starting"
	case v.now.Warming:
		return fmt.Sprintf(": warming up, %d requests", v.now.Done)
	default:
		return fmt.Sprintf(": %.0f %%, %d requests", 100*v.now.Fraction, v.now.Done)
	}
}

func (v *liveView) bold(s string) string {
	if !v.colour {
		return s
	}
	return lipgloss.NewStyle().Bold(true).Render(s)
}

func (v *liveView) faint(s string) string {
	if !v.colour {
		return s
	}
	return lipgloss.NewStyle().Faint(true).Render(s)
}
