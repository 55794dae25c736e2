// Package build says which build of wirelab runs: its version, commit and Go version.
//
// The Go toolchain writes these facts into a binary, except under `go run`. There, and only there,
// Current asks git for the commit of the module that go has just built.
//
// This package must not know who prints or stores the facts.
package build

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"wirelab.dev/internal/base/pattern"
)

// modulePath is the path of the module that this package belongs to.
const modulePath = "wirelab.dev"

// An Info holds the facts about one build. Facts that are not known are absent.
type Info struct {
	// Version of the module, such as v0.1.0; devel if the source had no version.
	Version string `json:"version"`
	// Git commit of the source: 40 hexadecimal digits, or 12 if the module's version named it.
	Commit string `json:"commit,omitempty"`
	// Time of the commit.
	CommitTime *time.Time `json:"commit_time,omitempty"`
	// Whether the source differed from the commit, or from the version if the commit is not known.
	Dirty *bool `json:"dirty,omitempty"`
	// Version of Go that compiled it.
	Go string `json:"go"`
	// Operating system and architecture, such as linux/amd64.
	Platform string `json:"platform"`
}

// Current returns the facts about this program. Its first call may start git, under `go run` only.
var Current = sync.OnceValue(func() Info {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Info{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	}
	i := read(info)
	if i.Commit == "" && i.Version == "devel" && info.Main.Path == modulePath {
		if program, err := os.Executable(); err == nil && isGoRun(program) {
			if folder, err := os.Getwd(); err == nil {
				i.askGit(folder)
			}
		}
	}
	return i
})

// Version returns the version of this program, at no cost.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return read(info).Version
	}
	return "unknown"
}

// pseudoVersion matches the end of a version that Go made from a commit.
var pseudoVersion = pattern.Lazy(`[.-]\d{14}-([0-9a-f]{12})(\+.*)?$`)

// read returns what the toolchain wrote into the binary.
func read(info *debug.BuildInfo) Info {
	i := Info{Version: strings.Trim(info.Main.Version, "()"), Go: info.GoVersion, Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if i.Version == "" {
		i.Version = "devel"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Commit = s.Value
		case "vcs.time":
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
				i.CommitTime = &t
			}
		case "vcs.modified":
			dirty := s.Value == "true"
			i.Dirty = &dirty
		}
	}
	if info.Main.Sum != "" { // go downloaded the module, whose files it verifies by this sum
		dirty := false
		i.Dirty = &dirty
		if found := pseudoVersion().FindStringSubmatch(i.Version); found != nil && i.Commit == "" {
			i.Commit = found[1]
		}
	}
	return i
}

// goRunProgram matches where `go run` puts a program: a temporary folder, or the build cache.
var goRunProgram = pattern.Lazy(`[/\\](go-build[0-9]+[/\\]b[0-9]+[/\\]exe|[0-9a-f]{2}[/\\][0-9a-f]{64}-d)[/\\][^/\\]+$`)

func isGoRun(program string) bool { return goRunProgram().MatchString(program) }

// askGit adds the commit of the module that contains the folder. `go run` builds the module that
// contains its working directory, and starts the program in the same directory. If git fails, the
// commit stays unknown.
func (i *Info) askGit(folder string) {
	root, found := moduleRoot(folder)
	if !found {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	git := func(arguments ...string) (string, error) {
		// A repository's settings may name a program for fsmonitor, which git would start.
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root, "-c", "core.fsmonitor=false", "-c", "log.showSignature=false"}, arguments...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	said, err := git("show", "--no-patch", "--format=%H %cI", "HEAD")
	commit, written, _ := strings.Cut(said, " ")
	if err != nil || commit == "" {
		return
	}
	changes, err := git("status", "--porcelain") // what go build asks for vcs.modified
	if err != nil {
		return
	}
	dirty := changes != ""
	i.Commit, i.Dirty = commit, &dirty
	if t, err := time.Parse(time.RFC3339, written); err == nil {
		t = t.UTC()
		i.CommitTime = &t
	}
}

// moduleRoot returns the folder whose go.mod go uses in this folder, if it is this module's.
func moduleRoot(folder string) (root string, found bool) {
	for {
		text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err == nil {
			for line := range bytes.Lines(text) {
				if words := strings.Fields(string(line)); len(words) >= 2 && words[0] == "module" {
					return folder, words[1] == modulePath
				}
			}
			return "", false
		}
		above := filepath.Dir(folder)
		if above == folder {
			return "", false
		}
		folder = above
	}
}

// Write prints the facts, one per line. It says which are not known.
func (i Info) Write(w io.Writer) error {
	commit, changes := cmp.Or(i.Commit, "unknown"), "unknown"
	if i.CommitTime != nil {
		commit += " of " + i.CommitTime.UTC().Format("2 January 2006, 15:04 UTC")
	}
	switch {
	case i.Dirty == nil:
	case *i.Dirty:
		changes = "yes, the source differed from the commit"
	default:
		changes = "none"
	}
	_, err := fmt.Fprintf(w, "wirelab %s\ncommit    %s\nchanges   %s\nGo        %s\nplatform  %s\n", i.Version, commit, changes, i.Go, i.Platform)
	return err
}

// String describes the build in one line, such as "v0.1.0, commit 0123456789ab, go1.26.8, linux/amd64".
func (i Info) String() string {
	parts := []string{i.Version}
	if i.Commit != "" {
		parts = append(parts, "commit "+i.Commit[:min(12, len(i.Commit))])
	} else if i.Version == "devel" {
		parts = append(parts, "commit unknown")
	}
	if i.Dirty != nil && *i.Dirty {
		parts = append(parts, "with uncommitted changes")
	}
	return strings.Join(append(parts, i.Go, i.Platform), ", ")
}
