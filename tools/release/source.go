package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A source is a clone of the last commit. Go notes the commit in programs that it builds there, and
// no file that was not committed can get into them.
type source struct {
	folder  string
	commit  string
	version string // without v; of a commit without a tag, 0.0.0-gitTIME
	date    time.Time
}

// A program is wirelab for one target.
type program struct{ system, arch, path string }

func clone(ctx context.Context, root, folder string) (s source, err error) {
	s.folder = filepath.Join(folder, "wirelab")
	root, err = filepath.Abs(root)
	if err != nil {
		return s, err
	}
	if _, err := command(ctx, root, nil, "git", "clone", "--quiet", "--shared", root, s.folder); err != nil {
		return s, err
	}
	// The man pages and completions are made in the clone, and are no change of it: programs note changes.
	if err := os.WriteFile(filepath.Join(s.folder, ".git", "info", "exclude"), []byte("/man/\n/completion/\n"), 0o600); err != nil {
		return s, err
	}
	said, err := command(ctx, s.folder, nil, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return s, err
	}
	commit, seconds, _ := strings.Cut(said, " ")
	written, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return s, fmt.Errorf("git log: found the time %q", seconds)
	}
	s.commit, s.date = commit, time.Unix(written, 0).UTC()
	tags, err := command(ctx, s.folder, nil, "git", "tag", "--points-at", "HEAD", "--list", "v[0-9]*")
	s.version = versionOf(tags, s.date)
	return s, err
}

// versionOf returns the version that a tag of the commit names. Without a tag it is one that deb, rpm
// and apk can read: apk knows few words, git among them.
func versionOf(tags string, date time.Time) string {
	if tag, _, _ := strings.Cut(tags, "\n"); tag != "" {
		return strings.TrimPrefix(tag, "v")
	}
	return "0.0.0-git" + date.Format("20060102150405")
}

// document makes man pages and completion in the clone. The test that makes them is the only place
// that has their generators.
func (s source) document(ctx context.Context) error {
	date := fmt.Sprintf("SOURCE_DATE_EPOCH=%d", s.date.Unix())
	_, err := command(ctx, s.folder, []string{"GOWORK=", date}, "go", "test", "-trimpath", "-count=1", "-run=^TestManPages$", "./cmd/wirelab", "-man="+s.folder)
	return err
}

// build builds the program for a target. make build is the one place that knows the tags and flags.
func (s source) build(ctx context.Context, target string) (program, error) {
	system, arch, _ := strings.Cut(target, "/")
	p := program{system, arch, filepath.Join(s.folder, "..", system+"_"+arch, "wirelab")}
	if system == "windows" {
		p.path += ".exe"
	}
	if _, err := command(ctx, s.folder, []string{"GOWORK=", "GOOS=" + system, "GOARCH=" + arch}, "make", "build", "OUT="+p.path); err != nil {
		return p, err
	}
	return p, p.limit()
}

// mostBytes limits a program's size, so that it does not grow unseen (decision 0073).
const mostBytes = 60_000_000

func (p program) limit() error {
	file, err := os.Stat(p.path)
	if err == nil && file.Size() > mostBytes {
		err = fmt.Errorf("the program has %.1f MB, more than %.0f: make size says what each module adds; raise mostBytes if it is worth it",
			float64(file.Size())/1e6, mostBytes/1e6)
	}
	return err
}

// command runs a program, and returns what it printed, without the end of the last line.
func command(ctx context.Context, folder string, environment []string, words ...string) (string, error) {
	var out, said bytes.Buffer
	c := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // the words are this program's own
	c.Dir, c.Stdout, c.Stderr = folder, &out, &said
	c.Env = append(os.Environ(), environment...)
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(words[:min(2, len(words))], " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return strings.TrimRight(out.String(), "\n"), nil
}
