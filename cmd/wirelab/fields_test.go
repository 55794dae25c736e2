package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/show/report"
)

// checkFields wants the runs to fill every field that the fixtures of the report's
// tests fill: fields RUN…. A run is read once as it is and once as if no check had
// refused a trial, so that a busy machine leaves nothing empty.
func checkFields(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: fields RUN…")
	}
	var trees []any
	for _, directory := range args {
		run, err := record.Open(ts.MkAbs(directory))
		ts.Check(err)
		var stored, unrefused []*record.Record
		for r, err := range run.Records() {
			ts.Check(err)
			passed := r
			passed.Checks = nil
			stored, unrefused = append(stored, &r), append(unrefused, &passed)
		}
		for _, records := range [][]*record.Record{stored, unrefused} {
			summary, err := analysis.Summarize(&run.Manifest, analysis.JudgedTrials{Records: records}, insight.BuiltInCategories())
			ts.Check(err)
			var out bytes.Buffer
			ts.Check(report.WriteJSON(&out, &report.Run{Summary: summary, Records: records, Directory: directory}))
			var tree any
			ts.Check(json.Unmarshal(out.Bytes(), &tree))
			trees = append(trees, tree)
		}
	}
	fields := ts.ReadFile(filepath.Join(repository, "internal", "show", "report", "testdata", "fixture_fields.txt"))
	for _, field := range strings.Fields(fields) {
		if !isFilled(trees, strings.Split(field, ".")) {
			ts.Fatalf("a fixture of internal/show/report fills %s, and no trial does", field)
		}
	}
}

// isFilled tells whether the field is neither null, false, zero nor empty anywhere.
func isFilled(tree any, names []string) bool {
	switch value := tree.(type) {
	case map[string]any:
		return len(names) > 0 && isFilled(value[names[0]], names[1:])
	case []any:
		for _, member := range value {
			if isFilled(member, names) {
				return true
			}
		}
		return false
	default:
		return len(names) == 0 && value != nil && value != false && value != 0.0 && value != ""
	}
}
