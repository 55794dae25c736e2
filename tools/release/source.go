package main

import (
	"bytes"
	"context"
	"errors"
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
	version string // without v; of a commit without a tag, 0.0.0-snapshot.COMMIT
	date    time.Time
}

func clone(ctx context.Context, root, folder string) (source, error) {
	s := source{folder: filepath.Join(folder, "wirelab")}
	if _, err := command(ctx, root, "git", "clone", "--quiet", "--shared", root, s.folder); err != nil {
		return s, err
	}
	said, err := command(ctx, s.folder, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return s, err
	}
	commit, seconds, _ := strings.Cut(said, " ")
	written, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return s, fmt.Errorf("git log: found the time %q", seconds)
	}
	s.commit, s.date = commit, time.Unix(written, 0).UTC()
	tags, err := command(ctx, s.folder, "git", "tag", "--points-at", "HEAD", "--list", "v[0-9]*")
	s.version = versionOf(tags, commit)
	return s, err
}

// versionOf returns the version that a tag of the commit names.
func versionOf(tags, commit string) string {
	if tag, _, _ := strings.Cut(tags, "\n"); tag != "" {
		return strings.TrimPrefix(tag, "v")
	}
	return "0.0.0-snapshot." + commit[:12]
}

// command runs a program, and returns what it printed, without the end of the last line.
func command(ctx context.Context, folder, program string, arguments ...string) (string, error) {
	return commandWith(ctx, folder, nil, append([]string{program}, arguments...)...)
}

func commandWith(ctx context.Context, folder string, environment []string, words ...string) (string, error) {
	var out, said bytes.Buffer
	c := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // the words are this program's own
	c.Dir, c.Stdout, c.Stderr = folder, &out, &said
	c.Env = append(os.Environ(), environment...)
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(words[:2], " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return strings.TrimRight(out.String(), "\n"), nil
}

// emptyFolder makes the folder, or removes what an earlier release left in it. It refuses a folder
// that has files, but no release.
func emptyFolder(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(folder, marker)); err != nil && len(entries) > 0 {
		return fmt.Errorf("%s has files, but is no folder of a release (it lacks %s): choose another with -dist", folder, marker)
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // a release is public
		return err
	}
	return os.WriteFile(filepath.Join(folder, marker), []byte("make release-dry empties this folder\n"), 0o644) //nolint:gosec // public
}

const marker = ".release"
