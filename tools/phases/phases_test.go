package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// enter makes a module with a passing and a failing package, and a Makefile.
func enter(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("GOFLAGS", "")
	for name, text := range map[string]string{
		"go.mod":            "module toy\n\ngo 1.25\n",
		"Makefile":          "good:\n\t@echo is good\nbad:\n\t@echo is bad; false\n",
		"sound/a_test.go":   "package sound\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Log(\"not shown\") }\n\nfunc TestSkip(t *testing.T) { t.Skip(\"no kernel\") }\n",
		"broken/b_test.go":  "package broken\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n\nfunc TestB(t *testing.T) {\n\tt.Run(\"inner\", func(t *testing.T) { t.Error(\"is shown\") })\n}\n",
		"unbuilt/c_test.go": "package unbuilt\n\nvar x int = \"text\"\n",
		"crash/d_test.go":   "package crash\n\nimport \"testing\"\n\nfunc TestMain(m *testing.M) { panic(\"at once\") }\n",
	} {
		if dir, _, ok := strings.Cut(name, "/"); ok {
			if err := os.MkdirAll(dir, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTestsAreShown(t *testing.T) {
	enter(t)
	var out bytes.Buffer
	s, r := &screen{out: &out}, newResults()
	if _, err := goTest(t.Context(), s, r, "test", "-json", "./sound"); err != nil {
		t.Fatal(err)
	}
	r.print(s)
	if text := out.String(); !strings.HasPrefix(text, "ok  \ttoy/sound\t") || strings.Contains(text, "not shown") || !strings.HasSuffix(text, "\nskipped tests, by reason:\n    1  no kernel\n\ntests: 1 passed, 0 failed, 1 skipped\n") {
		t.Errorf("of a sound package it says:\n%s", text)
	}
	out.Reset()
	if _, err := goTest(t.Context(), s, r, "test", "-json", "./..."); err == nil {
		t.Error("broken packages passed")
	}
	r.print(s)
	text := out.String()
	for _, want := range []string{"is shown", "cannot use \"text\"", "panic: at once", "ok  \ttoy/sound\t", "FAIL\ttoy/broken\t"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	_, last, _ := strings.Cut(text, "failed, 2 skipped\n")
	for _, want := range []string{"toy/broken TestB/inner", "toy/crash ", "toy/unbuilt "} {
		if !strings.Contains(last, "FAILED "+want+"\n") {
			t.Errorf("the last lines do not name %q", want)
		}
	}
	if n := strings.Count(last, "\n"); n != 3 {
		t.Errorf("%d last lines, want 3", n)
	}
	if t.Failed() {
		t.Log(text)
	}
}

// A test that fails once is flaky; one that fails again, or by a data race, has failed.
func TestFailedTestsAreRepeated(t *testing.T) {
	// Each test counts its runs in a file of its name.
	const once = `package p

import (
	"os"
	"testing"
)

func first(t *testing.T) bool {
	_, err := os.Stat(t.Name())
	return err != nil && os.WriteFile(t.Name(), nil, 0o666) == nil
}
`
	failsOnce := func(name string) string {
		return "func Test" + name + "(t *testing.T) {\n\tif first(t) {\n\t\tt.Error(\"the first time\")\n\t}\n}\n"
	}
	for _, c := range []struct {
		name, tests string
		strict      bool
		flaky       []string
		says        string
		failed      bool
	}{
		{name: "once", tests: failsOnce("A"), flaky: []string{"toy/p TestA"}, says: "FLAKY toy/p TestA: failed once, then passed 3 times\n"},
		{name: "strict", tests: failsOnce("A"), strict: true, flaky: []string{"toy/p TestA"}, says: "0 failed", failed: true},
		{name: "always", tests: "func TestA(t *testing.T) { t.Error(\"always\") }\n", says: "FAILED toy/p TestA\n", failed: true},
		{name: "four", tests: failsOnce("A") + failsOnce("B") + failsOnce("C") + failsOnce("D"), says: "4 failed", failed: true},
		{name: "a panic", tests: "func TestA(t *testing.T) {\n\tif first(t) {\n\t\tpanic(\"the first time\")\n\t}\n}\n", says: "FAILED toy/p TestA\n", failed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv("GOFLAGS", "")
			for name, text := range map[string]string{"go.mod": "module toy\n\ngo 1.25\n", "p/p_test.go": once + c.tests} {
				if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(text), 0o666)); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			s, r := &screen{out: &out}, newResults()
			err := suite{packages: allPackages}.run(t.Context(), s, r)
			r.print(s)
			if failed := err != nil || r.tooFlaky(c.strict); failed != c.failed || !strings.Contains(out.String(), c.says) {
				t.Errorf("failed: %t (%v), want %t and %q in:\n%s", failed, err, c.failed, c.says, &out)
			}
			written, _ := os.ReadFile(flakyFile)
			if got, want := string(written), strings.Join(append(c.flaky, ""), "\n"); got != want {
				t.Errorf("%s has %q, want %q", flakyFile, got, want)
			}
		})
	}
}

func TestStopsAtTheFirst(t *testing.T) {
	enter(t)
	var out bytes.Buffer
	if !run(t.Context(), &screen{out: &out}, []string{"good", "bad", "good"}) {
		t.Error("a bad phase passed")
	}
	if text := out.String(); strings.Count(text, "is good\n") != 1 || !strings.Contains(text, "== good passed in ") || !regexp.MustCompile(`bad failed after \d+s: exit status 2\n$`).MatchString(text) {
		t.Errorf("it says:\n%s", text)
	}
}

func TestNoLongSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := &screen{out: &out}
		done := s.begin("lint")
		s.setActivity(", at a package")
		time.Sleep(25 * time.Second)
		done()
		if want := "== lint\n   lint: 9s, at a package\n   lint: 18s, at a package\n"; out.String() != want {
			t.Errorf("%q, want %q", out.String(), want)
		}
	})
}

func TestLongPackagesStartFirst(t *testing.T) {
	got := slowFirst([]string{"a", slowPackages[1], "b", slowPackages[0]})
	if want := []string{slowPackages[0], slowPackages[1], "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestFullLeavesOutWhatShortDid checks that full runs each test that behaves differently there,
// by itself, by a helper, or by an imported suite.
func TestFullLeavesOutWhatShortDid(t *testing.T) {
	t.Chdir(t.TempDir())
	const testing = "import \"testing\"\n\n"
	for name, text := range map[string]string{
		"go.mod":            "module toy\n\ngo 1.25\n",
		"suite/suite.go":    "package suite\n\n" + testing + "func Much() bool { return !testing.Short() }\n\nfunc Always() {}\n",
		"user/a_test.go":    "package user\n\n" + testing + "func TestMuch(t *testing.T) { suite.Much() }\n\nfunc TestAlways(t *testing.T) { suite.Always() }\n",
		"shorter/a.go":      "package shorter\n",
		"shorter/a_test.go": "package shorter\n\n" + testing + "func TestA(t *testing.T) { skip(t) }\n\nfunc TestB(t *testing.T) {}\n",
		"shorter/b_test.go": "package shorter\n\n" + testing + "func skip(t *testing.T) {\n\tif testing.Short() {\n\t\tt.Skip()\n\t}\n}\n",
		"outside/a_test.go": "package outside_test\n\n" + testing + "func FuzzMuch(f *testing.F) { g() }\n\nvar g = suite.Much\n",
		"same/a_test.go":    "package same\n\n" + testing + "func TestSame(t *testing.T) { shorter.B() }\n",
		"allocs/a_test.go":  "package allocs\n\n" + testing + "func TestAllocs(t *testing.T) { testing.AllocsPerRun(1, func() {}) }\n",
		"norace/a_test.go":  "//go:build !race\n\npackage norace\n\n" + testing + "func TestNoRace(t *testing.T) {}\n",
		"norace/b_test.go":  "//go:build linux && race\n\npackage norace\n\nconst watched = true\n",
		"norace/c_test.go":  "package norace\n\n" + testing + "func TestWatched(t *testing.T) { _ = watched }\n",
		"bench/a_test.go":   "package bench\n\n" + testing + "func BenchmarkA(b *testing.B) {}\n\nfunc TestNoBenchmark(t *testing.T) {}\n",
		"untested/a.go":     "package untested\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err := findDifferingTests(t.Context(), "", []string{"./..."})
	if err != nil {
		t.Fatal(err)
	}
	want := selection{
		packages: []string{"toy/allocs", "toy/bench", "toy/norace", "toy/outside", "toy/shorter", "toy/user"},
		tests:    []string{"FuzzMuch", "TestA", "TestAllocs", "TestMuch", "TestNoRace", "TestWatched"},
	}
	if !slices.Equal(got.packages, want.packages) || !slices.Equal(got.tests, want.tests) {
		t.Errorf("%q, want %q", got, want)
	}
}
