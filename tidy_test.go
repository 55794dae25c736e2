// Package wirelab holds no code, only the test that keeps the tree in order.
//
// Every package lives in a room, every room has a level, and a package imports
// lower levels only. The table below is the one in ARCHITECTURE.md as data; a
// new room starts with a line here. The checks read imports with go/parser, so
// they see every file whatever its build tags, and they are themselves proven
// on two small trees in testdata/tidy.
package wirelab

import (
	"os"
	"slices"
	"strings"
	"testing"
)

const modulePath = "wirelab.dev"

// room is a folder and all that lies below it.
type room struct {
	folder string
	level  int

	// seam says that the room's own package declares what its subfolders
	// implement: they may know it, it may not know them, and only the
	// subfolder "catalog" may know them all.
	seam bool
}

var rooms = []room{
	{folder: "internal/foreign/takeover", level: 0},
	{folder: "internal/foreign/yardstick", level: 0},
	{folder: "cmd/wirelab", level: 7},
	{folder: "internal/show/report", level: 6},
	{folder: "internal/run/selftest", level: 6},
	{folder: "internal/run/fleet", level: 6},
	{folder: "internal/run/lab", level: 5},

	{folder: "internal/judge/advice", level: 5},
	{folder: "internal/judge/analysis", level: 4},
	{folder: "internal/run/worker", level: 4},
	{folder: "internal/run/load", level: 3},
	{folder: "internal/wire/stack", level: 3, seam: true},
	{folder: "internal/wire/workload", level: 3, seam: true},
	{folder: "internal/machine/probe", level: 3, seam: true},
	{folder: "internal/wire/service", level: 3, seam: true},
	{folder: "internal/machine/link", level: 3},
	{folder: "internal/judge/check", level: 3},
	{folder: "internal/foreign", level: 3},
	{folder: "internal/data/scenario", level: 2},
	{folder: "internal/wire/schema", level: 2},
	{folder: "internal/machine/symbol", level: 2},
	{folder: "internal/machine/perfevent", level: 2},
	{folder: "internal/machine/bpf", level: 2},
	{folder: "internal/data/record", level: 2},
	{folder: "internal/wire/secure", level: 2},
	{folder: "internal/wire/http", level: 2},
	{folder: "rpc/fastgrpc", level: 2},
	{folder: "rpc/creditrpc", level: 2},
	{folder: "rpc/chanpool", level: 2}, // beside the libraries that its tests pool
	{folder: "rpc/call", level: 1},
	{folder: "internal/data/claim", level: 0},
	{folder: "internal/base/spelling", level: 0},
	{folder: "internal/machine/rebuild", level: 0},
	{folder: "internal/wire/peer", level: 1},
	{folder: "peers", level: 0},
	{folder: "internal/base/stats", level: 0},
	{folder: "internal/base/latency", level: 0},
	{folder: "internal/machine/host", level: 0},
	{folder: "internal/wire/congestion", level: 0},
	{folder: "internal/base/clock", level: 0},
	{folder: "internal/wire/route", level: 0},
	{folder: "internal/base/failure", level: 0},
	{folder: "internal/base/expect", level: 0},
	{folder: "internal/base/tuning", level: 0},
	{folder: "internal/base/units", level: 0},
	{folder: "rpc/batchio", level: 0},
	{folder: "studies", level: 0},
	{folder: "web", level: 0},
	{folder: ".", level: 8}, // this package: tests of the whole
}

// public rooms are libraries that others import. Of internal they may import only the
// rooms named here, which come with the module.
var public = map[string][]string{
	"rpc/fastgrpc":  {"rpc/batchio", "rpc/call"},
	"rpc/creditrpc": {"rpc/batchio", "rpc/call"},
	"rpc/chanpool":  {},
}

// The record is the only door between measuring and judging: whatever their
// levels, judging rooms import no measuring room.
var (
	judging   = []string{"internal/judge/check", "internal/judge/analysis", "internal/judge/advice", "internal/show/report"}
	measuring = []string{"internal/run/lab", "internal/run/load", "internal/wire/stack", "internal/machine/probe"}
)

// vague names say nothing about what a package holds.
var vague = []string{"util", "utils", "common", "helper", "helpers", "types"}

func TestTreeIsTidy(t *testing.T) {
	breaches, err := inspect(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, breach := range breaches {
		t.Error(breach)
	}
}

// The tables name only what there is.
func TestEveryRoomIsThere(t *testing.T) {
	named := slices.Concat(judging, measuring)
	for library, imported := range public {
		named = append(append(named, library), imported...)
	}
	for _, room := range rooms {
		named = append(named, room.folder)
	}
	for _, folder := range named {
		if status, err := os.Stat(folder); err != nil || !status.IsDir() {
			t.Errorf("there is no room %s: take it out of the table", folder)
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
		"rpc/fastgrpc/fastgrpc.go: rpc/fastgrpc is public and must not import internal/base/clock",
		"rpc/fastgrpc/fastgrpc_test.go: rpc/fastgrpc is public and must not import internal/base/stats",
		"cmd/wirelab/main.go: cmd/wirelab must not import internal/attic, which is in no room",
		"internal/attic: is in no room; add it to the table in tidy_test.go or move it",
		"internal/base/clock: has 2 package comments, wants one (in clock.go, spare.go)",
		"internal/base/latency: has no package comment",
		"internal/run/load/load.go: internal/run/load (level 3) must not import its neighbour internal/wire/stack (level 3)",
		"internal/run/load/load.go: internal/run/load (level 3) must not import its neighbour internal/wire/stack/fake (level 3)",
		"internal/show/report/report.go: internal/show/report judges and must not import internal/run/lab, which measures",
		"internal/wire/stack/stack.go: internal/wire/stack is a seam and must not import its own internal/wire/stack/fake",
		"internal/wire/stack/tcp/tcp.go: internal/wire/stack/tcp must not import its sibling internal/wire/stack/fake",
		"internal/base/stats/stats.go: internal/base/stats (level 0) must not import internal/data/record (level 2)",
		"internal/base/stats/stats_test.go: internal/base/stats (level 0) must not import internal/run/load (level 3)",
		"internal/wire/workload/common: \"common\" does not say what the package holds",
	}
	got, err := inspect(os.DirFS("testdata/tidy/bad"))
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
