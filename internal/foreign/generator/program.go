package generator

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

// A Program is a program that `go install` builds. Its version is pinned so that two runs
// use the same program; the Go module proxy and its checksum database guarantee that.
type Program struct {
	Name    string
	Package string // what is built, as in example.org/program/cmd/program
	Version string
}

// String returns the name and the version.
func (p Program) String() string { return p.Name + " " + p.Version }

// path returns the place of the built program, for all runs of a user.
func (p Program) path() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder for %s: %w", p.Name, err)
	}
	return filepath.Join(cache, "wirelab", p.Name+"-"+p.Version, p.Name), nil
}

// Find returns the path of the program that Build made.
func (p Program) Find() (string, error) {
	path, err := p.path()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is not built yet: run `wirelab run fast-grpc --yardstick %s`, which fetches and builds it: %w", p, p.Name, err)
	}
	return path, nil
}

// Build fetches and builds the program with `go install`, unless that was done before,
// and prints its progress.
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
		return fmt.Errorf("%s: no go command to build it with; install Go: %w", p.Name, err)
	}
	// It is built beside its place and renamed, so that a program there is complete.
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

// progressEvery is the time between two lines of progress.
const progressEvery = 5 * time.Second

// install runs `go install` and counts its lines: one for each module that it downloads,
// and one for each package that it compiles.
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
	downloaded, compiled, printed := 0, 0, time.Now()
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
		if time.Since(printed) > progressEvery {
			printed = time.Now()
			fmt.Fprintf(progress, "%s: %d modules downloaded, %d packages compiled\n", p, downloaded, compiled)
		}
	}
	if err := command.Wait(); err != nil {
		return fmt.Errorf("go install: %w: %s", err, strings.Join(last, "; "))
	}
	return nil
}
