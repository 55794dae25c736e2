package report

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/table"
)

// shortLoad returns a load of one trial in which the given number of requests was answered.
func shortLoad(t *testing.T, requests int) *Run {
	t.Helper()
	full := fixtureService(t, "failing")
	r := *full.Records[0]
	recorder := latency.NewRecorder()
	defer recorder.Close()
	for i := range requests {
		recorder.Record(int64(time.Duration(i+1) * time.Millisecond))
	}
	times, err := latency.NewHistogram(recorder).Distribution()
	if err != nil {
		t.Fatal(err)
	}
	r.Requests, r.Completed, r.Service, r.Response = int64(requests), int64(requests), times, nil
	r.Errors, r.Course, r.Cell.Load = nil, nil, record.Load{Model: "closed"}
	records := []*record.Record{&r}
	summary, err := analysis.Summarize(&record.Manifest{}, analysis.JudgedTrials{Records: records}, insight.BuiltInCategories())
	if err != nil {
		t.Fatal(err)
	}
	return &Run{Summary: summary, Records: records}
}

// A load shows the percentiles that the page, --json and gates know, and no others.
func TestLoadShowsThePercentilesThatAreKnown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		requests       int
		shown, missing []string
	}{
		{19, []string{"mean", "max"}, []string{"P50"}},
		{20, []string{"P50 "}, []string{"P90", "P95"}},
		{200, []string{"P50 ", "P90 ", "P95 "}, []string{"P99"}},
	} {
		var out bytes.Buffer
		run := shortLoad(t, c.requests)
		if !table.IsLoad(run.Summary) {
			t.Fatal("one trial of a service is no load")
		}
		if err := table.WriteLoad(&out, run.Summary, table.Table{}); err != nil {
			t.Fatal(err)
		}
		_, line, _ := strings.Cut(out.String(), "\n  latency ")
		line, _, _ = strings.Cut(line, "\n  CPU ")
		for _, text := range c.shown {
			if !strings.Contains(line, text) {
				t.Errorf("%d requests: %q without %s", c.requests, line, text)
			}
		}
		for _, text := range c.missing {
			if strings.Contains(line, text) {
				t.Errorf("%d requests: %q with %s", c.requests, line, text)
			}
		}
	}
}

// Nothing of a load is wider than a terminal of 80 columns, or longer than its 24 lines.
func TestLoadFitsTheTerminal(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"failing", "stalling", "steps"} {
		var out bytes.Buffer
		run := fixtureService(t, name)
		if !table.IsLoad(run.Summary) {
			t.Fatalf("%s is no load", name)
		}
		if err := table.WriteLoad(&out, run.Summary, table.Table{Terminal: format.Terminal{Width: 80}}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String(), "\n")
		if len(lines) > 20 {
			t.Errorf("%s has %d lines", name, len(lines))
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > 80 {
				t.Errorf("%s: too wide: %s", name, line)
			}
		}
		for _, word := range []string{"trial", "cell", "neighbour", "duet"} {
			if strings.Contains(out.String(), word) {
				t.Errorf("%s: a user knows no %s:\n%s", name, word, out.String())
			}
		}
		t.Logf("%s:\n%s", name, out.String())
	}
}
