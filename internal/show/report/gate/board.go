package gate

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/table"
)

// boardTitles are the columns of WriteBoard.
var boardTitles = []string{"stack", "requests/s", "P99", "client CPU", "server CPU", "server memory", "valid"}

// WriteBoard writes a page about a run: the machine, the claims, and a table for each point.
func WriteBoard(w io.Writer, run *Run) error {
	var out strings.Builder
	s := run.Summary
	fmt.Fprintf(&out, "# %s\n\n", s.Title)
	if s.Question != "" {
		fmt.Fprintf(&out, "%s\n\n", strings.TrimSpace(s.Question))
	}
	fmt.Fprintf(&out, "Measured on %s, on %s. %d trials, seed %d.\n\n", s.Started.UTC().Format("2006-01-02"), machineOf(s.Host), s.Done, s.Seed)
	out.WriteString("Each figure has the half width of its 95 % interval, if there are enough repeats. CPU time is per request. " +
		"Memory is the largest of the server's process. A refused row names the check that refused it.\n")
	if len(s.Claims) > 0 {
		out.WriteString("\n## Claims\n\n" + claimTable(s.Claims))
	}
	var part string
	for _, point := range boardPoints(table.SortedCells(s.Cells)) {
		first := point[0]
		if first.Part != part {
			part = first.Part
			fmt.Fprintf(&out, "\n## %s\n", cmp.Or(s.PartTitles[part], part))
		}
		fmt.Fprintf(&out, "\n### %s\n\n", describePoint(first))
		out.WriteString(markdownTable(boardTitles, "lrrrrrl", lists.Map(point, boardRow)))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// machineOf describes the machine of a run by the facts in its manifest.
func machineOf(host map[string]any) string {
	fact := func(key string) string {
		if value := host[key]; value != nil {
			return fmt.Sprint(value)
		}
		return "unknown"
	}
	memory := "unknown memory"
	if bytes, known := host["memory_bytes"].(float64); known {
		memory = fmt.Sprintf("%.0f GiB of memory", bytes/(1<<30))
	}
	return fmt.Sprintf("%s with %s CPUs and %s (%s %s, virtualisation: %s)",
		fact("cpu_model"), fact("cores"), memory, fact("os"), fact("kernel"), cmp.Or(fact("virtualisation"), "none"))
}

// boardPoints groups the cells that differ only in their variant.
func boardPoints(cells []*matrix.Cell) [][]*matrix.Cell {
	var points [][]*matrix.Cell
	for _, c := range cells {
		last := len(points) - 1
		if last >= 0 && points[last][0].Part == c.Part && describePoint(points[last][0]) == describePoint(c) {
			points[last] = append(points[last], c)
			continue
		}
		points = append(points, []*matrix.Cell{c})
	}
	return points
}

func describePoint(c *matrix.Cell) string {
	text := c.Workload
	if c.RequestBytes > 0 {
		text += " of " + format.ByteSize(c.RequestBytes)
	}
	callers, pinned := " callers", "pinned"
	if c.Clients == 1 {
		callers = " caller"
	}
	if c.Unpinned {
		pinned = "unpinned"
	}
	return text + ", " + units.Thousands(int64(c.Clients)) + callers + ", " + pinned
}

func boardRow(c *matrix.Cell) []string {
	row := []string{"`" + c.ShortVariant() + "`"}
	if !c.HasFigures() {
		row = append(row, format.Absent, format.Absent, format.Absent, format.Absent, format.Absent)
		return append(row, fmt.Sprintf("0/%d **refused**: %s", c.Trials, strings.ReplaceAll(invalidReason(c), "\n", " ")))
	}
	megabytes := func(bytes float64) string { return fmt.Sprintf("%.0f MiB", bytes/(1<<20)) }
	return append(row, withHalfWidth(&c.Throughput, format.PerSecond), withHalfWidth(table.FigureAt(c.ResponseTimes(), "P99"), format.Micros),
		withHalfWidth(c.ClientCPU, format.Micros), withHalfWidth(c.ServerCPU, format.Micros), withHalfWidth(c.Server.Peak, megabytes),
		validity(c))
}

// validity returns the number of valid trials, and for a refused cell the reason.
func validity(c *matrix.Cell) string {
	text := table.ColumnValues(c, "valid")[0]
	if !c.IsValid() {
		text += ": " + strings.ReplaceAll(invalidReason(c), "\n", " ")
	}
	return text
}

// withHalfWidth formats a figure and half the width of its interval.
func withHalfWidth(f *matrix.Figure, write func(float64) string) string {
	if f == nil || !format.Finite(f.Value) {
		return format.Absent
	}
	text := write(f.Value)
	if share, known := f.HalfWidth(); known && format.Finite(share) {
		digits := 0
		if share < 0.1 {
			digits = 1
		}
		text += fmt.Sprintf(" ±%.*f%%", digits, 100*share)
	}
	return text
}

func claimTable(claims []compare.Claim) string {
	rows := make([][]string, 0, len(claims))
	for i := range claims {
		c := &claims[i]
		rows = append(rows, []string{c.Says, c.ClaimedText(), claimMeasured(c), claimVerdict(c)})
	}
	return markdownTable([]string{"claim", "claimed", "here", "verdict"}, "lrrl", rows)
}
