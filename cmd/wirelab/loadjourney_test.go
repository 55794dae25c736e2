package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// journeyExample is the first example of docs/load-scenarios.md.
func journeyExample() ([]byte, error) {
	page, err := os.ReadFile("../../docs/load-scenarios.md")
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	return []byte(example), nil
}

// writeJourney puts the example of the docs into the script's folder, so that scripts run it.
func writeJourney(ts *testscript.TestScript) {
	example, err := journeyExample()
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("shop.yaml"), example, 0o644))
}

func TestTheExampleIsThere(t *testing.T) {
	if example, err := journeyExample(); err != nil || !strings.HasPrefix(string(example), "version: 1\n") {
		t.Errorf("docs/load-scenarios.md begins its example with %q (%v)", example, err)
	}
}
