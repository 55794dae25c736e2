// Package wirelab holds no code, only the test that keeps the tree in order.
//
// Every package stands in a house. A house imports the houses below it, never one
// beside it. The table below is the picture of ARCHITECTURE.md as data. The checks read
// the source with go/parser, whatever its build tags, and are themselves tested on two
// small trees in testdata/tidy.
package wirelab

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

const modulePath = "wirelab.dev"

// A house is a folder with packages that belong together.
type house struct {
	folder string
	level  int
}

// houses are listed from the ground.
var houses = []house{
	{"rpc", 0},
	{"internal/base", 0},
	{"peers", 0},
	{"docs", 0},
	{"studies", 0},
	{"web", 0},
	{"internal/data", 1},
	{"internal/foreign", 2},
	{"internal/machine", 3},
	{"internal/wire", 3},
	{"internal/judge", 3},
	{"internal/run", 4},
	{"internal/show", 4},
	{"cmd", 5},
	{"wirelabtest", 5},
	{".", 6}, // this package: tests of the whole
}

// The record is the only door between measuring and judging, whatever the levels.
var (
	judging   = []string{"internal/judge", "internal/show"}
	measuring = []string{"internal/machine", "internal/wire", "internal/run"}
)

// seams declare what the packages in their subfolders implement. A subfolder may import
// its seam. A seam imports none of its subfolders, and of these only catalog imports others.
var seams = []string{"internal/wire/stack", "internal/wire/workload", "internal/machine/probe"}

// vague names say nothing about what a package holds.
var vague = []string{"util", "utils", "common", "helper", "helpers", "types"}

// Bounds of a package. Tests and generated files do not count.
const (
	maxFiles           = 20
	maxLinesOfCommands = 5500 // of all packages in cmd
	// A knot is a set of files that all reach each other by the names that they use.
	maxOfKnot = 1.0 / 3 // as a share of the package's files; two files are always allowed
)

func TestTreeIsTidy(t *testing.T) {
	breaches, err := inspect(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, breach := range breaches {
		t.Error(breach)
	}
}

// The tables name only folders that exist.
func TestEveryHouseExists(t *testing.T) {
	named := slices.Concat(judging, measuring, seams)
	for _, h := range houses {
		named = append(named, h.folder)
	}
	for _, folder := range named {
		if status, err := os.Stat(folder); err != nil || !status.IsDir() {
			t.Errorf("there is no folder %s: take it out of the table", folder)
		}
	}
}

// A newcomer finds every package of a house in the table of ARCHITECTURE.md.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range houses {
		if h.level == 6 || h.folder == "cmd" || !strings.HasPrefix(h.folder, "internal/") && h.folder != "rpc" {
			continue
		}
		entries, err := os.ReadDir(h.folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if name := entry.Name(); entry.IsDir() && name != "testdata" && !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("ARCHITECTURE.md does not name `%s` of %s", name, path.Join(h.folder, name))
			}
		}
	}
}

func TestGoodTreeHasNoBreach(t *testing.T) {
	breaches, err := inspect(os.DirFS("testdata/tidy/good"))
	if err != nil {
		t.Fatal(err)
	}
	if len(breaches) > 0 {
		t.Errorf("breaches in a good tree:\n%s", strings.Join(breaches, "\n"))
	}
}

func TestBadTreeIsReportedWhole(t *testing.T) {
	want := []string{
		"rpc/fastgrpc/fastgrpc.go: rpc must not import internal/base/clock",
		"rpc/fastgrpc/fastgrpc_test.go: rpc must not import internal/base/stats",
		"cmd/wirelab/main.go: cmd/wirelab must not import internal/attic, which is in no house",
		"internal/attic: is in no house; move it, or add its house to the table in tidy_test.go",
		"internal/base/clock: has 2 package comments, wants one (in clock.go, spare.go)",
		"internal/base/latency: has no package comment",
		"internal/run/load/load.go: internal/run must not import internal/show/report, of a house beside it",
		"internal/show/report/report.go: internal/show/report judges and must not import internal/run/lab, which measures",
		"internal/wire/stack/stack.go: internal/wire/stack is a seam and must not import its own internal/wire/stack/fake",
		"internal/wire/stack/tcp/tcp.go: internal/wire/stack/tcp must not import its sibling internal/wire/stack/fake",
		"internal/base/stats/stats.go: internal/base must not import internal/data/record, of a house above it",
		"internal/base/stats/stats_test.go: internal/base must not import internal/run/load, of a house above it",
		"internal/wire/workload/common: \"common\" does not say what the package holds",
		"internal/data/record: 3 of 4 files form a knot, want at most 2 (b.go, c.go, record.go)",
		"internal/data/claim: has 21 files, want at most 20",
		"cmd: has 5502 lines, want at most 5500",
	}
	bad := withGenerated(t, "testdata/tidy/bad")
	got, err := inspect(os.DirFS(bad))
	if err != nil {
		t.Fatal(err)
	}
	for _, breach := range got {
		if !slices.Contains(want, breach) {
			t.Errorf("unexpected: %s", breach)
		}
	}
	for _, breach := range want {
		if !slices.Contains(got, breach) {
			t.Errorf("not reported: %s", breach)
		}
	}
}

// withGenerated copies a tree, and adds what is too large to commit: a package of 21
// files, and a command of 5,500 lines.
func withGenerated(t *testing.T, tree string) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(tree)); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(path.Dir(path.Join(folder, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("internal/data/claim/claim.go", "// Package claim has too many files.\npackage claim\n")
	for i := range maxFiles {
		write("internal/data/claim/"+string(rune('a'+i))+".go", "package claim\n")
	}
	main, err := os.ReadFile(path.Join(folder, "cmd/wirelab/main.go"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Count(string(main), "\n")
	write("cmd/wirelab/long.go", "package main\n"+strings.Repeat("\n", maxLinesOfCommands+1-lines))
	return folder
}
