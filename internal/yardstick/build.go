package yardstick

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Program is one that `go install` builds. Its version is pinned so that two runs
// hold the same yardstick; the Go module proxy and its checksum database vouch for it.
type Program struct {
	Name    string
	Package string // what is built, as in example.org/program/cmd/program
	Version string
}

// String names it with its version.
func (p Program) String() string { return p.Name + " " + p.Version }

// path is where the built program is kept, for all runs of a user.
func (p Program) path() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("a place for %s: %w", p.Name, err)
	}
	return filepath.Join(cache, "wirelab", p.Name+"-"+p.Version, p.Name), nil
}

// Find is the program that Build made.
func (p Program) Find() (string, error) {
	path, err := p.path()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is not there: `wirelab run fast-grpc --yardstick %s` fetches and builds it: %w", p, p.Name, err)
	}
	return path, nil
}

// Build sees to it that the program is there: it fetches and builds it the Go way, and
// tells of its progress. Where it has been built before, that is all.
func (p Program) Build(ctx context.Context, progress io.Writer) error {
	path, err := p.path()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	golang, err := exec.LookPath("go")
	if err != nil {
		return fmt.Errorf("%s: there is no go command to build it with: %w", p.Name, err)
	}
	// Built beside its place and renamed: one that is there is whole.
	folder := filepath.Dir(path)
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	beside, err := os.MkdirTemp(filepath.Dir(folder), "building-")
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	defer func() { _ = os.RemoveAll(beside) }()
	fmt.Fprintf(progress, "%s: fetching and building it into %s, which takes some minutes\n", p, folder)
	if err := p.install(ctx, golang, beside, progress); err != nil {
		return fmt.Errorf("%s could not be built: %w", p, err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return os.Rename(filepath.Join(beside, p.Name), path)
}

// progressEvery is how often a line is printed.
const progressEvery = 5 * time.Second

// install runs `go install`, whose lines it counts: one a module that is downloaded,
// and one a package that is compiled.
func (p Program) install(ctx context.Context, golang, into string, progress io.Writer) error {
	command := exec.CommandContext(ctx, golang, "install", "-v", p.Package+"@"+p.Version)
	command.Dir = into // and so in no module
	command.Env = append(os.Environ(), "GOBIN="+into, "GOFLAGS=-mod=mod", "GOWORK=off")
	lines, err := command.StderrPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	var last []string // a few, for an error
	downloaded, compiled, told := 0, 0, time.Now()
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		line := scanner.Text()
		switch {
		case strings.HasPrefix(line, "go: downloading "):
			downloaded++
		case strings.ContainsAny(line, " :"):
			last = append(last, line)
			last = last[max(0, len(last)-3):]
		default:
			compiled++
		}
		if time.Since(told) > progressEvery {
			told = time.Now()
			fmt.Fprintf(progress, "%s: %d modules downloaded, %d packages compiled\n", p, downloaded, compiled)
		}
	}
	if err := command.Wait(); err != nil {
		return fmt.Errorf("go install: %w: %s", err, strings.Join(last, "; "))
	}
	return nil
}
