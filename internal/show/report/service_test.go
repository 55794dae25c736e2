package report

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/table"
)

// A pageCell holds the part of a cell that the page of a service gets.
type pageCell struct {
	Said     string               `json:"said"`
	Name     string               `json:"name"`
	Requests int64                `json:"requests"`
	Window   float64              `json:"window_seconds"`
	Statuses []table.AnswerStatus `json:"statuses"`
	Checks   []JudgedCheck        `json:"checks"`
	Course   []map[string]any     `json:"course"`
	Spread   []struct {
		Requests int64 `json:"requests"`
	} `json:"spread"`
}

func pageCells(t *testing.T, run *Run) []pageCell {
	t.Helper()
	text, err := encode(newPageData(run), forPage)
	if err != nil {
		t.Fatal(err)
	}
	var page struct {
		Cells []pageCell `json:"cells"`
	}
	if err := json.Unmarshal(text, &page); err != nil {
		t.Fatal(err)
	}
	return page.Cells
}

func TestPageDataOfAService(t *testing.T) {
	run := fixtureService(t, "failing")
	cell := pageCells(t, run)[0]
	if cell.Said != "GET /items over HTTP/1.1" || cell.Name != "GET /items over HTTP/1.1, 20 clients" || cell.Window != 3 {
		t.Errorf("said %q, named %q, a window of %g s", cell.Said, cell.Name, cell.Window)
	}
	statuses := map[string]bool{}
	answers := int64(0)
	for _, s := range cell.Statuses {
		statuses[s.Name] = s.Bad
		answers += s.Count
	}
	if bad, has := statuses["503 Service Unavailable"]; !has || !bad || statuses["200 OK"] || answers != run.Records[0].Requests {
		t.Errorf("statuses %+v of %d requests", cell.Statuses, run.Records[0].Requests)
	}
	spread := int64(0)
	for _, step := range cell.Spread {
		spread += step.Requests
	}
	if spread != run.Records[0].Requests {
		t.Errorf("the spread has %d of %d requests", spread, run.Records[0].Requests)
	}
	for _, figure := range []string{"response_p50_us", "response_max_us", "failed_share", "offered_rps", "throughput_rps"} {
		if !slices.ContainsFunc(cell.Course, func(point map[string]any) bool { value, _ := point[figure].(float64); return value > 0 }) {
			t.Errorf("no stretch has %s", figure)
		}
	}
	if len(cell.Checks) != len(run.Records[0].Checks) || !slices.IsSortedFunc(cell.Checks, func(a, b JudgedCheck) int {
		return slices.Index(levelsWorstFirst, a.Level) - slices.Index(levelsWorstFirst, b.Level)
	}) {
		t.Errorf("%d of %d checks, or not the worst first: %+v", len(cell.Checks), len(run.Records[0].Checks), cell.Checks)
	}
}

// Of the levels that repeats came to, the worst counts, with its detail.
func TestChecksAreShownAtTheirWorst(t *testing.T) {
	run := fixtureService(t, "stalling")
	again := *run.Records[0]
	again.Checks = slices.Clone(again.Checks)
	again.Checks[0].Level, again.Checks[0].Detail = record.Invalid, "the client was too slow"
	run.Records = append(run.Records, &again)
	worst := pageCells(t, run)[0].Checks
	i := slices.IndexFunc(worst, func(c JudgedCheck) bool { return c.Name == again.Checks[0].Name })
	if got := worst[i]; got.Level != record.Invalid || got.Trials != 1 || got.Detail != "the client was too slow" {
		t.Errorf("the check is %+v", got)
	}
}

// Other cells pay nothing for what services show.
func TestPageDataOfOthersIsAsSmallAsBefore(t *testing.T) {
	for _, cell := range pageCells(t, fixtureRun(t)) {
		if cell.Said != "" || cell.Statuses != nil || len(cell.Checks)+len(cell.Spread) > 0 {
			t.Fatalf("a cell that is of no service has %+v", cell)
		}
		for _, point := range cell.Course {
			if _, has := point["response_p50_us"]; has {
				t.Fatal("a course that is of no service has response times")
			}
		}
	}
}

func TestTableOfAServiceShowsItsWire(t *testing.T) {
	var out bytes.Buffer
	if err := table.WriteTable(&out, fixtureService(t, "steps").Summary, table.Table{Terminal: format.Terminal{Width: 100}}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if !strings.Contains(text, "\nwire ") || !strings.Contains(text, "\nh1 ") || strings.Contains(text, "service:") {
		t.Errorf("want a column wire with h1 in it:\n%s", text)
	}
}

func TestVariantsOfServicesInWords(t *testing.T) {
	for variant, want := range map[string][2]string{
		"service:wire=h2":                {"h2", "GET / over HTTP/2"},
		"service:inflight=5,wire=grpc":   {"grpc,inflight=5", "GET / over gRPC, at most 5 in flight"},
		"service:wire=grpc-h3":           {"grpc-h3", "GET / over gRPC on HTTP/3"},
		"service:run=before,wire=h3":     {"h3,run=before", "GET / over HTTP/3, run before"},
		"service:wire=something-unheard": {"something-unheard", "GET / over something-unheard"},
	} {
		cell := record.Cell{Stack: record.ServiceStack, Variant: variant, Place: record.Place{Workload: "GET /"}}
		if short, said := cell.ShortVariant(), table.DescribeCall(&cell); short != want[0] || said != want[1] {
			t.Errorf("%s is %q and %q, want %q", variant, short, said, want)
		}
	}
	if other := (record.Cell{Stack: "tcp", Variant: "tcp:buffers=pooled", Place: record.Place{Workload: "echo"}}); other.ShortVariant() != "tcp:buffers=pooled" {
		t.Error("a stack of wirelab's own goes by its variant")
	}
}
