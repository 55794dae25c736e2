package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each guide has one run, named like the guide, and shows the chart of that run.
func TestEveryGuideHasARunAndItsChart(t *testing.T) {
	g := gallery{root: "../.."}
	jobs, err := g.jobs()
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]string{}
	for _, j := range jobs {
		runs[j.name] = j.line
	}
	guides, err := filepath.Glob("../../docs/guides/*.md")
	if err != nil || len(guides) < 7 || len(runs) != len(jobs) || len(jobs) != len(guides)-1+len(examples) {
		t.Errorf("%d guides, %d runs, of %d names: %v", len(guides), len(jobs), len(runs), err)
	}
	for _, guide := range guides {
		name := strings.TrimSuffix(filepath.Base(guide), ".md")
		if name == "README" {
			continue
		}
		text, err := os.ReadFile(guide)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(runs[name], "compare --stack ") || !strings.Contains(string(text), "]("+name+".svg)") {
			t.Errorf("%s: the run is %q, and its chart is not shown", guide, runs[name])
		}
		chart, err := os.ReadFile(strings.TrimSuffix(guide, ".md") + ".svg")
		if err != nil || !strings.Contains(string(chart), "prefers-color-scheme: dark") || !strings.Contains(string(chart), "viewBox") {
			t.Errorf("%s has no chart for light and dark pages: %v", guide, err)
		}
	}
}

func TestUnknownRunIsRefused(t *testing.T) {
	g := gallery{root: "../..", only: "spining"}
	if err := g.run(); err == nil || !strings.HasPrefix(err.Error(), "no run is named spining: name one of codec-and-pools how-many-channels ") {
		t.Error(err)
	}
}

// A run that is done is not measured again; one that fails is named, and those behind it are made.
func TestRunsThatAreDoneStay(t *testing.T) {
	g := gallery{root: "../..", out: t.TempDir(), wirelab: filepath.Join(t.TempDir(), "gone"), only: "default"}
	if err := os.Mkdir(filepath.Join(g.out, "default"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := g.run(); err == nil || !strings.HasPrefix(err.Error(), "default: fork/exec "+g.wirelab) {
		t.Errorf("without the program: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(g.out, "default"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(g.out, "default", doneFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.run(); err != nil {
		t.Errorf("a run that is done: %v", err)
	}
}

// One drawing has both modes, shows one of them, and can shrink.
func TestBothModes(t *testing.T) {
	got, err := bothModes(`<svg width="10" height="20"><a font-family="f"/></svg>`, `<svg width="10" height="20"><b font-family="f"/></svg>`)
	want := `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 20" width="10" height="20" font-family="f"><style>.dark { display: none } ` +
		`@media (prefers-color-scheme: dark) { .light { display: none } .dark { display: inline } }</style>` +
		`<svg class="light" width="10" height="20"><a/></svg><svg class="dark" width="10" height="20"><b/></svg></svg>` + "\n"
	if err != nil || got != want {
		t.Errorf("%v\n%s, want\n%s", err, got, want)
	}
	if _, err := bothModes("<svg/>", "<svg/>"); err == nil || !strings.Contains(err.Error(), "mend web/src/picture.ts") {
		t.Error(err)
	}
}
