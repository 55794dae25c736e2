package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/show/report/format"
)

// maxAgentRows is the largest number of agents in a table. A line below sums up all agents.
const maxAgentRows = 10

// An agentTable is the table of a fleet's agents. The page gets it as JSON.
type agentTable struct {
	Titles  []string   `json:"titles"`
	Numbers []int      `json:"numbers"` // the columns with numbers, which are aligned to the right
	Rows    []agentRow `json:"rows"`
	Summary string     `json:"summary"` // sums up all agents
}

type agentRow struct {
	Cells []string `json:"cells"`
	Wrong bool     `json:"wrong"` // whether the agent's health is not fine
}

// newAgentTable returns a table with at most this number of rows, or nil if there are no agents. If
// it cannot show all agents, it shows the worst: the least healthy, and of these the busiest.
func newAgentTable(agents []live.Agent, rows int) *agentTable {
	if len(agents) == 0 {
		return nil
	}
	t := &agentTable{Titles: []string{"agent", "role", "requests/s", "CPU", "health"}, Numbers: []int{2, 3}, Summary: summarizeAgents(agents)}
	shown := slices.Clone(agents)
	if len(shown) > rows {
		slices.SortStableFunc(shown, func(a, b live.Agent) int {
			return cmp.Or(cmp.Compare(b.Health, a.Health), cmp.Compare(cpuOrLess(b), cpuOrLess(a)))
		})
		t.Summary += fmt.Sprintf("; the worst %d are shown", rows)
		shown = shown[:rows]
	}
	for _, a := range shown {
		rate, cpu := "–", "–"
		if a.Rate != nil {
			rate = units.Thousands(int64(*a.Rate + 0.5))
		}
		if a.CPU != nil {
			cpu = fmt.Sprintf("%.0f %%", 100**a.CPU)
		}
		t.Rows = append(t.Rows, agentRow{[]string{a.Name, a.Role, rate, cpu, describeHealth(a)}, a.Health != live.Fine})
	}
	return t
}

func describeHealth(a live.Agent) string {
	if a.Health == live.Fine {
		return "fine"
	}
	return a.Remark
}

// cpuOrLess returns the agent's CPU share, or less than any share if it is unknown.
func cpuOrLess(a live.Agent) float64 {
	if a.CPU == nil {
		return -1
	}
	return *a.CPU
}

// healthWords name the kinds of health in a summary, the worst first.
var healthWords = []struct {
	live.Health
	words string
}{
	{live.Lost, "lost"},
	{live.Silent, "silent"},
	{live.ClockOff, "with a clock error"},
	{live.Disturbed, "disturbed by other programs"},
	{live.Limiting, "at the limit"},
	{live.Fine, "fine"},
}

// summarizeAgents counts the agents of each health. It also names the busiest agent.
func summarizeAgents(agents []live.Agent) string {
	count := map[live.Health]int{}
	busiest := agents[0]
	for _, a := range agents {
		count[a.Health]++
		if cpuOrLess(a) > cpuOrLess(busiest) {
			busiest = a
		}
	}
	var parts []string
	for _, h := range healthWords {
		if n := count[h.Health]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", units.Thousands(int64(n)), h.words))
		}
	}
	text := words.Count(len(agents), "agent") + ": " + strings.Join(parts, ", ")
	if busiest.CPU != nil {
		text += fmt.Sprintf("; the busiest is %s with %.0f %% of its CPUs", busiest.Name, 100**busiest.CPU)
	}
	return text
}

// agentLines returns the table in lines for a terminal, at most rows+2.
func agentLines(agents []live.Agent, rows int, terminal format.Terminal) (lines []string) {
	t := newAgentTable(agents, rows)
	if t == nil {
		return nil
	}
	widths := make([]int, len(t.Titles))
	for _, cells := range append([]agentRow{{Cells: t.Titles}}, t.Rows...) {
		for i, cell := range cells.Cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	add := func(style format.Style, cells []string) {
		var padded []string
		for i, cell := range cells {
			width := -widths[i] // aligned to the left
			if slices.Contains(t.Numbers, i) {
				width = widths[i]
			}
			padded = append(padded, fmt.Sprintf("%*s", width, cell))
		}
		lines = append(lines, styledLine(strings.TrimRight(strings.Join(padded, "  "), " "), style, terminal))
	}
	add(format.Faint, t.Titles)
	for _, row := range t.Rows {
		style := format.Normal
		if row.Wrong {
			style = format.Red
		}
		add(style, row.Cells)
	}
	return append(lines, styledLine(t.Summary, format.Faint, terminal))
}
