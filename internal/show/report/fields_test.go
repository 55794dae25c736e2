package report

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/base/schemafile"
)

// A fixture that fills what no trial ever fills hides a feature that does not exist.
// fieldsFile lists the fields of --json that the fixtures fill and that come from
// records; cmd/wirelab/testdata/measuring/pipeline.txtar makes real trials, and
// fails where they leave one of them empty.
const fieldsFile = "testdata/fixture_fields.txt"

// computed are the fields that analysis computes from many trials, and does not take
// from any: its own tests have them come from records.
var computed = []string{
	"claims", "comparisons", "contrasts", "crossovers", "knees", "limits", "scalings", "shares", "warm_ups", "rejudged",
	// A client has a detail where a check refuses it, and windows open apart where an order comes
	// late: neither is so of a trial that goes well.
	"cells.fleet_clients.detail", "fleet.opened_apart_us",
	"leads", "other_programs", "answer", "advice", "trials.failed", "machine_limits.short", "cells.connections.differs", "cells.search.knee",
}

func TestFixturesFillWhatTrialsFill(t *testing.T) {
	filled := map[string]bool{}
	for _, run := range []*Run{fixtureRun(t), fixtureLifecycle(t), fixtureLoads(t), fixtureUsers(t), fixtureFleet(t)} {
		var out bytes.Buffer
		if err := WriteJSON(&out, run); err != nil {
			t.Fatal(err)
		}
		var tree map[string]any
		if err := json.Unmarshal(out.Bytes(), &tree); err != nil {
			t.Fatal(err)
		}
		for name, member := range tree {
			addFilled(filled, name, member)
		}
	}
	text := strings.Join(slices.Sorted(maps.Keys(filled)), "\n") + "\n"
	if schemafile.Updating() {
		if err := os.WriteFile(fieldsFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(fieldsFile)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("the fixtures fill other fields than %s says: run go test -run TestFixturesFill -update . here, and then the script pipeline of cmd/wirelab, which must find each of them filled by real trials", fieldsFile)
	}
}

// addFilled adds the fields that are neither null, false, zero nor empty. A list's
// elements have one path, and what a machine says of itself is left to it.
func addFilled(filled map[string]bool, path string, value any) {
	if slices.Contains(computed, path) || path == "host" || strings.HasSuffix(path, ".intervals") {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			addFilled(filled, path+"."+name, member)
		}
	case []any:
		for _, member := range value {
			addFilled(filled, path, member)
		}
	default:
		if value != nil && value != false && value != 0.0 && value != "" {
			filled[path] = true
		}
	}
}
