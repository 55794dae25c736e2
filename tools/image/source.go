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
	"strings"
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

// A program is what was built.
type program struct {
	tag     string // of the image
	seconds string // the time of the commit, in seconds since 1970
}

// certificates names the file of root certificates on Debian and its relatives. Go programs look
// there first.
const certificates = "/etc/ssl/certs/ca-certificates.crt"

// build builds wirelab, and fills a folder with the image's files, as the Containerfile wants them.
func (s *source) build(ctx context.Context, folder string, log io.Writer) (program, error) {
	compile := s.command(ctx, "make", "--no-print-directory", "build")
	compile.Stdout, compile.Stderr = log, log
	if err := compile.Run(); err != nil {
		return program{}, fmt.Errorf("make build: %w", err)
	}
	binary, err := os.ReadFile(filepath.Join(s.root, "bin", "wirelab"))
	if err != nil {
		return program{}, err
	}
	if err := fill(folder, binary, log); err != nil {
		return program{}, err
	}
	made := program{}
	if made.tag, err = s.git(ctx, "rev-parse", "--short=12", "HEAD"); err != nil {
		return program{}, err
	}
	if made.seconds, err = s.git(ctx, "log", "-1", "--format=%ct"); err != nil {
		return program{}, err
	}
	changed, err := s.git(ctx, "status", "--porcelain")
	if changed != "" {
		// Two dirty programs of one commit differ, and so do their tags.
		made.tag += fmt.Sprintf("-dirty-%x", sha256.Sum256(binary))[:len("-dirty-")+8]
		fmt.Fprintf(log, "the tag says dirty, since these files differ from the commit:\n%s\n", changed)
	}
	return made, err
}

func fill(folder string, binary []byte, log io.Writer) error {
	for _, made := range []struct {
		path string
		mode os.FileMode
	}{
		{"program/usr/local/bin", 0o755},
		{"program" + filepath.Dir(certificates), 0o755},
		{"folders/var/lib/wirelab", 0o700},
		{"folders/results", 0o755},
		{"folders/tmp", 0o777 | os.ModeSticky},
	} {
		path := filepath.Join(folder, made.path)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(path, made.mode); err != nil {
			return err
		}
	}
	roots, err := os.ReadFile(certificates)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "program", certificates), roots, 0o644) //nolint:gosec // not a secret
	} else {
		fmt.Fprintf(log, "without %s on this machine, the image has no root certificates: a NATS server of your own needs --cacert\n", certificates)
		err = nil
	}
	path := filepath.Join(folder, "program/usr/local/bin/wirelab")
	return errors.Join(err, os.WriteFile(path, binary, 0o755)) //nolint:gosec // a program
}
