package report

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"wirelab.dev/internal/analysis"
)

// fewCells keeps those cells of the fixture whose table shows all there is to
// show: a plain point, one with an error, an invalid one and one with a limit.
func fewCells(t *testing.T) *analysis.Summary {
	t.Helper()
	summary := fixtureRun(t).Summary
	summary.Cells = slices.DeleteFunc(summary.Cells, func(c analysis.Cell) bool {
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
	for name, terminal := range map[string]Terminal{
		"wide":   {},
		"narrow": {Width: 90},
		"colour": {Width: 160, Colour: true},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := WriteTable(&out, fewCells(t), terminal); err != nil {
				t.Fatal(err)
			}
			checkGolden(t, filepath.Join("testdata", "table-"+name+".txt"), out.Bytes())
		})
	}
}

// Each load shows what it alone has, and nothing of the others.
func TestTableOfLoads(t *testing.T) {
	summary := fixtureLoads(t).Summary
	summary.Cells = slices.DeleteFunc(summary.Cells, func(c analysis.Cell) bool { return c.Part == "ping" })
	var out bytes.Buffer
	if err := WriteTable(&out, summary, Terminal{Width: 160}); err != nil {
		t.Fatal(err)
	}
	checkGolden(t, filepath.Join("testdata", "table-loads.txt"), out.Bytes())
}

// A storm of reconnections shows who survives, within a usual terminal.
func TestTableOfLifecycles(t *testing.T) {
	summary := fixtureLifecycle(t).Summary
	summary.Cells = slices.DeleteFunc(summary.Cells, func(c analysis.Cell) bool { return c.Clients != 10 && c.Clients != 500 })
	var out bytes.Buffer
	if err := WriteTable(&out, summary, Terminal{Width: 100}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("%d columns of 100: %s", n, line)
		}
	}
	checkGolden(t, filepath.Join("testdata", "table-lifecycle.txt"), out.Bytes())
}

// The usual comparison fits a terminal of 120 columns with all its figures, and
// no width but an absurd one is overrun.
func TestTableFits(t *testing.T) {
	usual := fewCells(t)
	usual.Cells = slices.DeleteFunc(usual.Cells, func(c analysis.Cell) bool { return c.Part != "matrix" })
	for i := range usual.Cells {
		usual.Cells[i].Failure, usual.Cells[i].Findings, usual.Cells[i].Errors = "", nil, 0
	}
	for _, width := range []int{72, 80, 100, 120, 160} {
		var out bytes.Buffer
		if err := WriteTable(&out, usual, Terminal{Width: width}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns of %d: %s", n, width, line)
			}
		}
		whole := strings.Contains(out.String(), "P99.99  ")
		if whole != (width >= 120) {
			t.Errorf("at %d columns P99.99 is shown: %v", width, whole)
		}
	}
}

func TestTableOfNothing(t *testing.T) {
	var out bytes.Buffer
	if err := WriteTable(&out, &analysis.Summary{}, Terminal{}); err != nil || !strings.Contains(out.String(), "nothing to show") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestWordsAreWrapped(t *testing.T) {
	var out bytes.Buffer
	if err := WriteWords(&out, []string{"one two three four five", "averyverylongwordthatstandsalone six"}, Terminal{Width: 14}); err != nil {
		t.Fatal(err)
	}
	want := "• one two\n  three four\n  five\n• averyverylongwordthatstandsalone\n  six\n"
	if out.String() != want {
		t.Errorf("got:\n%swant:\n%s", out.String(), want)
	}
}

func TestUnits(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{micros(0), "0"},
		{micros(0.0421), "42.1ns"},
		{micros(0.9994), "999ns"},
		{micros(0.9996), "1.00µs"},
		{micros(9.996), "10.0µs"},
		{micros(999.4), "999µs"},
		{micros(999.6), "1.00ms"},
		{micros(51_500), "51.5ms"},
		{micros(12_345_678), "12.3s"},
		{byteSize(64), "64B"},
		{byteSize(1000), "1000B"},
		{byteSize(1536), "1.5KiB"},
		{byteSize(64 << 10), "64KiB"},
		{byteSize(20_800), "20.3KiB"},
		{percent(1), "100%"},
		{percent(0.99999), "99.99%"},
		{percent(0.41), "41%"},
		{perSecond(0.5), "0.50"},
		{perSecond(99.96), "100"},
		{perSecond(1234567.4), "1,234,567"},
		{plain(44.04), "44.0"},
		{plain(1081.6), "1,082"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}
