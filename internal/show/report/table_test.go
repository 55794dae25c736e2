package report

import (
	"bytes"
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/table"
)

// fewCells keeps those cells of the fixture whose table shows all there is to
// show: a plain point, one with an error, an invalid one and one with a limit.
func fewCells(t *testing.T) *analysis.Summary {
	t.Helper()
	summary := fixtureRun(t).Summary
	summary.Cells = slices.DeleteFunc(summary.Cells, func(c matrix.Cell) bool {
		switch {
		case c.Part == "matrix" && c.RequestBytes == 64 && c.Clients == 1,
			c.Part == "matrix" && c.RequestBytes == 1024 && c.Clients == 100,
			c.Clients == 500 && c.RequestBytes == 64<<10:
			return false
		}
		return true
	})
	return summary
}

func TestTable(t *testing.T) {
	for name, as := range map[string]table.Table{
		"piped":  {},
		"narrow": {Terminal: format.Terminal{Width: 60}},
		"colour": {Terminal: format.Terminal{Width: 160, Colour: true}},
		"whole":  {Columns: []string{table.AllColumns}, Verbose: true},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := table.WriteTable(&out, fewCells(t), as); err != nil {
				t.Fatal(err)
			}
			checkGolden(t, filepath.Join("testdata", "table-"+name+".txt"), out.Bytes())
		})
	}
}

// Each load shows what it alone has, and nothing of the others.
func TestTableOfLoads(t *testing.T) {
	summary := fixtureLoads(t).Summary
	summary.Cells = slices.DeleteFunc(summary.Cells, func(c matrix.Cell) bool { return c.Part == "ping" })
	var out bytes.Buffer
	if err := table.WriteTable(&out, summary, table.Table{Terminal: format.Terminal{Width: 80}}); err != nil {
		t.Fatal(err)
	}
	checkGolden(t, filepath.Join("testdata", "table-loads.txt"), out.Bytes())
}

// A storm of reconnections shows who survives, within a usual terminal.
func TestTableOfLifecycles(t *testing.T) {
	summary := fixtureLifecycle(t).Summary
	summary.Cells = slices.DeleteFunc(summary.Cells, func(c matrix.Cell) bool { return c.Clients != 10 && c.Clients != 500 })
	var out bytes.Buffer
	if err := table.WriteTable(&out, summary, table.Table{}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 && !strings.HasPrefix(line, "[") {
			t.Errorf("%d columns of 80: %s", n, line)
		}
	}
	checkGolden(t, filepath.Join("testdata", "table-lifecycle.txt"), out.Bytes())
}

// No width but an absurd one is overrun, and a wide terminal is shown no more than the
// usual columns.
func TestTableFits(t *testing.T) {
	usual := fewCells(t)
	for i := range usual.Cells {
		usual.Cells[i].Failure, usual.Cells[i].Findings, usual.Cells[i].Errors = "", nil, 0
	}
	for _, width := range []int{0, 50, 60, 80, 100, 160} {
		text := tableOf(t, usual, table.Table{Terminal: format.Terminal{Width: width}})
		for line := range strings.Lines(text) {
			isNote := width == 0 && strings.HasPrefix(line, "[")
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > cmp.Or(width, 80) && !isNote {
				t.Errorf("%d columns of %d: %s", n, width, line)
			}
		}
		if strings.Contains(text, "P90") || strings.Contains(text, "max") {
			t.Errorf("at %d columns there are more than the usual:\n%s", width, text)
		}
		if isWide := cmp.Or(width, 80) >= 80; strings.Contains(text, "server  valid") != isWide || strings.Contains(text, "hidden: too narrow") == isWide {
			t.Errorf("at %d columns:\n%s", width, text)
		}
	}
}

// The name is never cut: a long one takes the room of other columns, of its part alone.
func TestALongNameLeavesRoomToOtherParts(t *testing.T) {
	const long = "h1:cert=ecdsa,conn=new,group=x25519mlkem768,handshakes=16,tls=on"
	summary := fewCells(t)
	for i := range summary.Cells {
		if c := &summary.Cells[i]; c.Part == "tail" && c.Load.InFlightLimit > 0 {
			c.Variant = long
		}
	}
	text := tableOf(t, summary, table.Table{})
	titles := regexp.MustCompile(`(?m)^stack .*`).FindAllString(text, -1)
	if len(titles) != 2 || !strings.Contains(titles[0], "P99") || strings.Contains(titles[1], "P99") || !strings.Contains(text, long+" ") {
		t.Errorf("titles %q in\n%s", titles, text)
	}
}

func tableOf(t *testing.T, summary *analysis.Summary, as table.Table) string {
	t.Helper()
	var out bytes.Buffer
	if err := table.WriteTable(&out, summary, as); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// What all cells share is said once, what a part's share is said above the part, and
// only the rest is a column.
func TestSharedKeysAreSaidOnce(t *testing.T) {
	summary := fixtureRun(t).Summary
	summary.Cells = slices.DeleteFunc(summary.Cells, func(c matrix.Cell) bool { return c.Part == "tail" || c.Clients > 10 })
	text := tableOf(t, summary, table.Table{})
	for _, want := range []string{"echo, closed loop\n", "\nmatrix\n", "\nsweep: 1 client\n", "stack   size   c "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	summary.Cells = slices.DeleteFunc(summary.Cells, func(c matrix.Cell) bool {
		return c.Part != "matrix" || c.Clients != 1 || c.RequestBytes != 64
	})
	if text := tableOf(t, summary, table.Table{}); !strings.HasPrefix(text, "echo, 64 B, 1 client, closed loop\nstack  ") {
		t.Errorf("the heading is wrong:\n%s", text)
	}
}

// The fastest is marked without colour too, and only where all others are slower beyond
// doubt.
func TestTheFastestIsMarked(t *testing.T) {
	summary := fewCells(t)
	if text := tableOf(t, summary, table.Table{}); strings.Count(text, "µs* ") != 1 || !strings.Contains(text, "*: proven fastest of its group") {
		t.Errorf("want one mark and its meaning:\n%s", text)
	}
	if text := tableOf(t, summary, table.Table{Terminal: format.Terminal{Width: 80, Colour: true}}); !strings.Contains(text, "\x1b[1m95.3µs\x1b[0m\x1b[1m*\x1b[0m") {
		t.Errorf("not bold:\n%q", text)
	}
	for i := range summary.Comparisons {
		summary.Comparisons[i].Verdict = compare.Undecided
	}
	if text := tableOf(t, summary, table.Table{}); strings.Contains(text, "*") {
		t.Errorf("marked in doubt:\n%s", text)
	}
}

func TestColumnsThatAreAskedFor(t *testing.T) {
	names, err := table.FindColumns([]string{"stack", "max", " p99.9", "MEAN", "mean", "load"})
	if err != nil || !slices.Equal(names, []string{"stack", "max", "P99.9", "mean", "load"}) {
		t.Fatalf("%q, %v", names, err)
	}
	summary := fewCells(t)
	text := tableOf(t, summary, table.Table{Terminal: format.Terminal{Width: 40}, Columns: names})
	if !regexp.MustCompile(`stack +size +c +load +max +P99.9 +mean +± +valid`).MatchString(text) {
		t.Errorf("not as asked for:\n%s", text)
	}
	if _, err := table.FindColumns([]string{"P50", "p98"}); err == nil || !strings.Contains(err.Error(), `"p98": want one of stack, workload, size`) || !strings.HasSuffix(err.Error(), ", all") {
		t.Errorf("of an unknown name: %v", err)
	}
	if text := tableOf(t, summary, table.Table{Columns: []string{"client"}}); strings.Contains(text, "└") {
		t.Errorf("lines of times without a time:\n%s", text)
	}
	text = tableOf(t, summary, table.Table{Columns: []string{table.AllColumns}})
	for _, name := range []string{"workload", "load", "conn", "P95", "P99.99", "P99/P50", "CPU", "client", "server"} {
		if !strings.Contains(text, " "+name+" ") {
			t.Errorf("no %s among all:\n%s", name, text)
		}
	}
}

// The legend is short, and speaks of what is shown.
func TestTheLegendIsShort(t *testing.T) {
	for name, summary := range map[string]*analysis.Summary{
		"kernel": fixtureRun(t).Summary, "loads": fixtureLoads(t).Summary, "lifecycle": fixtureLifecycle(t).Summary,
	} {
		for _, width := range []int{80, 120} {
			text := tableOf(t, summary, table.Table{Terminal: format.Terminal{Width: width}})
			text = text[strings.LastIndex(text, "\n\n")+2:]
			legend, _, _ := strings.Cut(text, "\n[1]")
			if lines := strings.Split(strings.TrimSpace(legend), "\n"); len(lines) > 3 {
				t.Errorf("%s at %d: %d lines:\n%s", name, width, len(lines), legend)
			}
		}
	}
	if text := tableOf(t, fewCells(t), table.Table{Columns: []string{"P50"}}); !strings.Contains(text, "\nc: clients.\n") {
		t.Errorf("explains what is not shown:\n%s", text)
	}
}

// Notes take a line each, but for why there is no measurement.
func TestNotesAreCut(t *testing.T) {
	summary := fewCells(t)
	short, whole := tableOf(t, summary, table.Table{}), tableOf(t, summary, table.Table{Verbose: true})
	if !strings.Contains(short, "(limit 90…\n") || !strings.Contains(short, "1 more note and all texts in full: with --verbose, and in the report.\n") || !strings.Contains(short, "<at mmap> & gave up (grpc, 64KiB, c=500)\n") {
		t.Errorf("short:\n%s", short)
	}
	if strings.Contains(whole, "…") || !strings.Contains(whole, "coordinated omission") || !strings.Contains(whole, "Connections: ") {
		t.Errorf("verbose:\n%s", whole)
	}
}

func TestTableOfNothing(t *testing.T) {
	var out bytes.Buffer
	if err := table.WriteTable(&out, &analysis.Summary{}, table.Table{}); err != nil || !strings.Contains(out.String(), "nothing to show") {
		t.Errorf("%q, %v", out.String(), err)
	}
}
