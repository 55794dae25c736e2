package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const toyTests = `package toy

import (
	"os"
	"testing"
)

func TestSound(t *testing.T) {}

func TestShort(t *testing.T) {
	if !testing.Short() {
		t.Error("runs in full")
	}
}

// It counts its runs in a file.
func TestSometimes(t *testing.T) {
	seen, _ := os.ReadFile("seen")
	if err := os.WriteFile("seen", append(seen, 'x'), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Run("third", func(t *testing.T) {
		if (len(seen)+1)%3 == 0 {
			t.Error("this is run", len(seen)+1)
		}
	})
}
`

// toy makes a module with one package and enters it.
func toy(t *testing.T, tests string) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("GOWORK", "off")
	for name, text := range map[string]string{"go.mod": "module toy\n\ngo 1.25\n", "toy_test.go": tests} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func toyPlan(out *bytes.Buffer) *plan {
	return &plan{runs: 6, atOnce: 1, packages: "./...", short: true, only: regexp.MustCompile(`^GOMAXPROCS=[12]`), logs: "logs", out: out}
}

func TestFailuresAreCounted(t *testing.T) {
	toy(t, toyTests)
	var out bytes.Buffer
	if err := toyPlan(&out).execute(t.Context()); err == nil || !strings.Contains(err.Error(), "tests that failed: 1;") {
		t.Errorf("ended with %v", err)
	}
	for _, want := range []string{
		"\ntoy TestSometimes/third\n",
		"  failed in 2 of 6 runs: GOMAXPROCS=1\n",
		"  failed in 2 of 6 runs: GOMAXPROCS=1 burners=2\n",
		"  failed in 2 of 6 runs: GOMAXPROCS=2 burners=2\n",
		"  | toy_test.go:24: this is run 3\n",
		"1/1 toy: GOMAXPROCS=2: 6 runs in ",
		"\n24 of 24 runs took ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q", want)
		}
	}
	if logs, err := filepath.Glob("logs/toy-GOMAXPROCS1-run0*.log"); len(logs) != 2 {
		t.Errorf("logs of the first combination: %q, %v", logs, err)
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestSubset(t *testing.T) {
	toy(t, toyTests)
	var out bytes.Buffer
	p := toyPlan(&out)
	p.tests, p.short = "TestSound|TestShort", false
	if err := p.execute(t.Context()); err == nil || !strings.Contains(out.String(), "toy TestShort\n") {
		t.Errorf("in full, TestShort did not fail: %v\n%s", err, &out)
	}
	p.tests = "TestSound"
	if err := p.execute(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestInterrupted checks that failures found before an interruption are printed.
func TestInterrupted(t *testing.T) {
	toy(t, "package toy\n\nimport \"testing\"\n\nfunc TestBroken(t *testing.T) { t.Error(\"broken\") }\n")
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	p := toyPlan(&out)
	p.out = &cancelAfter{&out, "GOMAXPROCS=1: 6 runs", cancel}
	if err := p.execute(ctx); err == nil || !strings.Contains(err.Error(), "interrupted after 6 runs") {
		t.Errorf("ended with %v", err)
	}
	if want := "toy TestBroken\n  failed in 6 of 6 runs: GOMAXPROCS=1\n"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, &out)
	}
}

// TestTimeIsUp checks that without time left nothing runs, and that the output says so.
func TestTimeIsUp(t *testing.T) {
	toy(t, toyTests)
	var out bytes.Buffer
	p := toyPlan(&out)
	p.atMost = 1
	if err := p.execute(t.Context()); err != nil {
		t.Error(err)
	}
	if want := "\n0 of 24 runs took 0s; no time was left for 4 of 4 pairs"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, &out)
	}
}

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(40*time.Minute, 4)
		if got := time.Until(c.endOfShare()); got != 10*time.Minute {
			t.Errorf("the first share is %v", got)
		}
		time.Sleep(time.Minute)
		c.done++
		if got := time.Until(c.endOfShare()); got != 13*time.Minute {
			t.Errorf("the second share is %v", got)
		}
		if got := c.describeProgress(); got != "25 % done, about 3m0s left" {
			t.Error(got)
		}
		time.Sleep(time.Hour)
		if got := c.describeProgress(); !c.isOver() || got != "25 % done, about 0s left" {
			t.Error(got)
		}
		if c := newClock(0, 4); c.isOver() || time.Until(c.endOfShare()) < 24*time.Hour {
			t.Error("without a limit, time is limited")
		}
	})
}

type cancelAfter struct {
	*bytes.Buffer
	text   string
	cancel func()
}

func (c *cancelAfter) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(c.text)) {
		c.cancel()
	}
	return c.Buffer.Write(p)
}

func TestFailedTests(t *testing.T) {
	for name, c := range map[string]struct {
		output string
		want   []string
	}{
		"a test":      {"--- FAIL: TestA (0.00s)\n    a_test.go:1: no\nFAIL\n", []string{"TestA"}},
		"subtests":    {"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\n        a_test.go:1: no\n    --- FAIL: TestA/c (0.00s)\nFAIL\n", []string{"TestA/b", "TestA/c"}},
		"a time-out":  {"panic: test timed out after 10m0s\n\trunning tests:\n\t\tTestA (10m0s)\n\ngoroutine 1 [running]:\n", []string{"TestA"}},
		"a crash":     {"fatal error: concurrent map writes\n", []string{"(the whole binary)"}},
		"a data race": {"WARNING: DATA RACE\n--- FAIL: TestA (0.00s)\n    testing.go:1: race detected\n", []string{"TestA"}},
	} {
		var got []string
		for _, f := range failedTests(c.output) {
			got = append(got, f.test)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
