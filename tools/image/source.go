package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"wirelab.dev/tools/container"
)

// A source is the repository. Git reads it with an index of its own, in which the manifests count as
// unchanged. They are no part of the program, so a commit stays clean after its name was written
// into them, and the second image of a commit equals the first.
type source struct {
	root, index string
}

func openSource(ctx context.Context, root string, manifests []string) (*source, error) {
	s := &source{root: root}
	path, err := s.git(ctx, "rev-parse", "--path-format=absolute", "--git-path", "index")
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	copied, err := os.CreateTemp("", "wirelab-index-")
	if err != nil {
		return nil, err
	}
	s.index = copied.Name()
	_, err = copied.Write(text)
	if err := errors.Join(err, copied.Close(), s.assumeUnchanged(ctx, manifests)); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *source) assumeUnchanged(ctx context.Context, manifests []string) error {
	known := []string{"ls-files", "--"}
	for _, path := range manifests {
		relative, err := filepath.Rel(s.root, path)
		if err != nil {
			return err
		}
		known = append(known, relative)
	}
	names, err := s.git(ctx, known...)
	if err == nil && names != "" {
		_, err = s.git(ctx, append([]string{"update-index", "--assume-unchanged"}, strings.Split(names, "\n")...)...)
	}
	return err
}

func (s *source) close() { _ = os.Remove(s.index) } // of this run

// git returns what git prints, without the last line's end.
func (s *source) git(ctx context.Context, arguments ...string) (string, error) {
	command := s.command(ctx, "git", arguments...)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", arguments[0], err, bytes.TrimSpace(said.Bytes()))
	}
	return strings.TrimRight(string(out), "\n"), nil
}

func (s *source) command(ctx context.Context, program string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, program, arguments...)
	command.Dir = s.root
	if s.index != "" {
		command.Env = append(os.Environ(), "GIT_INDEX_FILE="+s.index)
	}
	return command
}

// build builds wirelab. The version is the image's tag.
func (s *source) build(ctx context.Context, log io.Writer) (container.Program, error) {
	made := container.Program{Arch: runtime.GOARCH}
	compile := s.command(ctx, "make", "--no-print-directory", "build")
	compile.Env = append(compile.Environ(), "GOOS=linux")
	compile.Stdout, compile.Stderr = log, log
	if err := compile.Run(); err != nil {
		return made, fmt.Errorf("make build: %w", err)
	}
	var err error
	if made.Text, err = os.ReadFile(filepath.Join(s.root, "bin", "wirelab")); err != nil {
		return made, err
	}
	if made.Commit, err = s.git(ctx, "rev-parse", "HEAD"); err != nil {
		return made, err
	}
	seconds, err := s.git(ctx, "log", "-1", "--format=%ct")
	if err != nil {
		return made, err
	}
	when, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return made, fmt.Errorf("git log: found the time %q", seconds)
	}
	made.Version, made.Time = made.Commit[:12], time.Unix(when, 0).UTC()
	changed, err := s.git(ctx, "status", "--porcelain")
	if changed != "" {
		// Two dirty programs of one commit differ, and so do their tags.
		made.Version += fmt.Sprintf("-dirty-%x", sha256.Sum256(made.Text))[:len("-dirty-")+8]
		fmt.Fprintf(log, "the tag says dirty, since these files differ from the commit:\n%s\n", changed)
	}
	return made, err
}
