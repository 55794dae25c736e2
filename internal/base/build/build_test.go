package build

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

func TestRead(t *testing.T) {
	module := func(version, sum string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: modulePath, Version: version, Sum: sum}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	when := debug.BuildSetting{Key: "vcs.time", Value: "2026-11-27T20:00:00Z"}
	modified := func(value string) debug.BuildSetting { return debug.BuildSetting{Key: "vcs.modified", Value: value} }
	for name, c := range map[string]struct {
		info *debug.BuildInfo
		want string // without the platform
		json string
	}{
		"go build": {
			module("v0.1.1-0.20261127200000-0123456789ab+dirty", "", revision, when, modified("true")),
			"v0.1.1-0.20261127200000-0123456789ab+dirty, commit 0123456789ab, with uncommitted changes, go1.26.8",
			`"commit":"0123456789abcdef0123456789abcdef01234567","commit_time":"2026-11-27T20:00:00Z","dirty":true`,
		},
		"release": {
			module("v0.1.0", "", revision, when, modified("false")),
			"v0.1.0, commit 0123456789ab, go1.26.8", `"dirty":false`,
		},
		"go install at a tag":    {module("v0.1.0", "h1:x"), "v0.1.0, go1.26.8", `{"version":"v0.1.0","dirty":false,"go"`},
		"go install at a commit": {module("v0.1.1-0.20261127200000-0123456789ab", "h1:x"), "v0.1.1-0.20261127200000-0123456789ab, commit 0123456789ab, go1.26.8", `"commit":"0123456789ab","dirty":false`},
		"go run":                 {module("(devel)", ""), "devel, commit unknown, go1.26.8", `{"version":"devel","go"`},
		"a test":                 {module("", ""), "devel, commit unknown, go1.26.8", `{"version":"devel","go"`},
	} {
		got := read(c.info)
		if text, _, _ := strings.Cut(got.String(), ", "+got.Platform); text != c.want {
			t.Errorf("%s: found %q, want %q", name, text, c.want)
		}
		if data, err := json.Marshal(got); err != nil || !strings.Contains(string(data), c.json) {
			t.Errorf("%s: found %s (%v), want in it %s", name, data, err, c.json)
		}
	}
}

func TestWrite(t *testing.T) {
	yes, no, when := true, false, time.Date(2026, 11, 27, 20, 0, 0, 0, time.UTC)
	for want, i := range map[string]Info{
		"wirelab devel\ncommit    unknown\nchanges   unknown\nGo        go1.26.8\nplatform  linux/amd64\n":                               {},
		"wirelab devel\ncommit    0123 of 27 November 2026, 20:00 UTC\nchanges   none\nGo        go1.26.8\nplatform  linux/amd64\n":      {Commit: "0123", CommitTime: &when, Dirty: &no},
		"wirelab devel\ncommit    0123\nchanges   yes, the source differed from the commit\nGo        go1.26.8\nplatform  linux/amd64\n": {Commit: "0123", Dirty: &yes},
	} {
		i.Version, i.Go, i.Platform = "devel", "go1.26.8", "linux/amd64"
		var found strings.Builder
		if err := i.Write(&found); err != nil || found.String() != want {
			t.Errorf("found %q (%v), want %q", &found, err, want)
		}
	}
}

func TestIsGoRun(t *testing.T) {
	for program, want := range map[string]bool{
		"/tmp/go-build640601199/b001/exe/wirelab":                               true,
		"/home/a/.cache/go-build/41/" + strings.Repeat("4a", 32) + "-d/wirelab": true,
		`C:\Users\a\AppData\Local\Temp\go-build640601199\b001\exe\wirelab.exe`:  true,
		"/usr/bin/wirelab":             false,
		"/home/a/go/bin/wirelab":       false,
		"/home/a/go-build/bin/wirelab": false,
	} {
		if got := isGoRun(program); got != want {
			t.Errorf("%s: found %v, want %v", program, got, want)
		}
	}
}

func TestAskGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("the commit under go run is not tested: %v", err)
	}
	root := t.TempDir()
	inside := filepath.Join(root, "cmd", "wirelab")
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git := func(arguments ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), "git", append([]string{"-C", root, "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgSign=false"}, arguments...)...)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", arguments, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	ask := func() Info {
		i := Info{Version: "devel"}
		i.askGit(inside)
		return i
	}
	write("go.mod", "module wirelab.dev\n")
	git("init", "--quiet")
	if i := ask(); i.Commit != "" || i.Dirty != nil {
		t.Errorf("without a commit: found %+v, want nothing", i)
	}
	git("add", ".")
	git("commit", "--quiet", "--message", "first")
	commit := git("rev-parse", "HEAD")
	if i := ask(); i.Commit != commit || i.Dirty == nil || *i.Dirty || i.CommitTime == nil {
		t.Errorf("a clean commit: found %+v, want commit %s", i, commit)
	}
	write("new.go", "package new\n")
	if i := ask(); i.Commit != commit || i.Dirty == nil || !*i.Dirty {
		t.Errorf("with a new file: found %+v, want changes after %s", i, commit)
	}
	write("go.mod", "// somebody's fork\nmodule example.com/other\n")
	if i := ask(); i.Commit != "" {
		t.Errorf("in another module: found %+v, want nothing", i)
	}
}
