package main

import "testing"

// Runs without -o that begin within one second do not get in each other's way.
func TestRunsWithoutANameBeginWithinOneSecond(t *testing.T) {
	t.Chdir(t.TempDir())
	s, err := scenarioLibrary.FindScenario("kernel-study")
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		j := job{scenario: s}
		run, err := (&app{}).open(&j, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = run.Finish("done") })
	}
}
