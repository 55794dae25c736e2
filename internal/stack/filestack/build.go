package filestack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"wirelab.dev/internal/stack"
)

// The Caddy that is measured. A version is pinned so that two runs hold the same
// yardstick; the Go module proxy and its checksum database vouch for it.
const (
	caddyModule  = "github.com/caddyserver/caddy/v2"
	CaddyVersion = "v2.11.9"
)

// caddyPath is where the built program is kept, for all runs of a user.
func caddyPath() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("file: a place for caddy: %w", err)
	}
	return filepath.Join(cache, "wirelab", "caddy-"+CaddyVersion, Caddy), nil
}

// findCaddy is the program that BuildCaddy made.
func findCaddy() (string, error) {
	path, err := caddyPath()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("file: caddy %s is not there: `wirelab run fast-grpc --yardstick caddy` fetches and builds it: %w", CaddyVersion, stack.ErrUnsupported)
	} else if err != nil {
		return "", fmt.Errorf("file: %w", err)
	}
	return path, nil
}

// BuildCaddy sees to it that Caddy is there: it fetches and builds it the Go way, and
// tells of its progress. Where it has been built before, that is all.
func BuildCaddy(ctx context.Context, progress io.Writer) error {
	path, err := caddyPath()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	golang, err := exec.LookPath("go")
	if err != nil {
		return fmt.Errorf("caddy: there is no go command to build it with: %w: %w", err, stack.ErrUnsupported)
	}
	// Built beside its place and renamed: one that is there is whole.
	folder := filepath.Dir(path)
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return fmt.Errorf("caddy: %w", err)
	}
	beside, err := os.MkdirTemp(filepath.Dir(folder), "building-")
	if err != nil {
		return fmt.Errorf("caddy: %w", err)
	}
	defer func() { _ = os.RemoveAll(beside) }()
	fmt.Fprintf(progress, "caddy %s: fetching and building it into %s, which takes some minutes\n", CaddyVersion, folder)
	if err := install(ctx, golang, beside, progress); err != nil {
		return fmt.Errorf("caddy %s could not be built: %w", CaddyVersion, err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("caddy: %w", err)
	}
	return os.Rename(filepath.Join(beside, Caddy), path)
}

// progressEvery is how often a line is printed.
const progressEvery = 5 * time.Second

// install runs `go install`, whose lines it counts: one a module that is downloaded,
// and one a package that is compiled.
func install(ctx context.Context, golang, into string, progress io.Writer) error {
	command := exec.CommandContext(ctx, golang, "install", "-v", caddyModule+"/cmd/caddy@"+CaddyVersion)
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
			fmt.Fprintf(progress, "caddy %s: %d modules downloaded, %d packages compiled\n", CaddyVersion, downloaded, compiled)
		}
	}
	if err := command.Wait(); err != nil {
		return fmt.Errorf("go install: %w: %s", err, strings.Join(last, "; "))
	}
	return nil
}
