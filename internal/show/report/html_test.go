package report

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"testing"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// No text of a run, whoever wrote it, may become markup or end the element that
// holds the data.
func TestPageHoldsHostileText(t *testing.T) {
	const hostile = `</script><!-- <script>alert("1")</script> ' & U+2028:` + "\u2028"
	run := fixtureRun(t)
	run.Summary.Title, run.Summary.Question = hostile, hostile
	run.Summary.Cells[0].Variant, run.Summary.Cells[0].Failure = hostile, hostile
	run.Advice = []string{hostile}
	var out bytes.Buffer
	if err := WriteHTML(&out, run); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	if n := strings.Count(page, "</script"); n != 2 {
		t.Errorf("%d script elements end, want 2", n)
	}
	if strings.Contains(page, "<!--") || strings.Contains(page, `alert("1")`) {
		t.Error("hostile text stands unescaped")
	}
	if got := pageDataOf(t, page)["title"]; got != hostile {
		t.Errorf("the title comes out as %q", got)
	}
}

func TestPageDataHasNoNaN(t *testing.T) {
	run := fixtureRun(t)
	for i := range run.Summary.Cells {
		cell := &run.Summary.Cells[i]
		cell.Service.P50 = matrix.Figure{Value: math.NaN(), Interval: &matrix.Interval{Low: math.Inf(-1), High: math.Inf(1)}}
		for j := range cell.Repeats {
			cell.Repeats[j].P99 = new(math.Inf(1))
		}
		for j := range cell.Curve {
			cell.Curve[j][1] = math.NaN()
		}
	}
	var out bytes.Buffer
	if err := WriteHTML(&out, run); err != nil {
		t.Fatal(err)
	}
	cell := pageDataOf(t, out.String())["cells"].([]any)[0].(map[string]any)
	if p50 := cell["service_us"].(map[string]any)["p50"]; p50 != nil {
		t.Errorf("p50 is %v, want null", p50)
	}
}

func TestPageOfNothing(t *testing.T) {
	var out bytes.Buffer
	if err := WriteHTML(&out, &Run{Summary: &analysis.Summary{Name: "empty", Planned: 3}}); err != nil {
		t.Fatal(err)
	}
	if data := pageDataOf(t, out.String()); data["partial"] != true || data["cells"] == nil {
		t.Errorf("partial is %v, cells are %v", data["partial"], data["cells"])
	}
}

func TestCommandLineIsReadByAShell(t *testing.T) {
	got := format.QuoteCommand([]string{"wirelab", "run", "it's", "a b", "", "$HOME", "tcp:buffers=pooled", "-c", "1,50"})
	want := `wirelab run 'it'\''s' 'a b' '' '$HOME' tcp:buffers=pooled -c 1,50`
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

var dataElement = regexp.MustCompile(`(?s)<script type="application/json" id="run">(.*?)</script>`)

func pageDataOf(t *testing.T, page string) map[string]any {
	t.Helper()
	match := dataElement.FindStringSubmatch(page)
	if match == nil {
		t.Fatal("the page has no data")
	}
	var data map[string]any
	if err := json.Unmarshal([]byte(match[1]), &data); err != nil {
		t.Fatal(err)
	}
	return data
}
