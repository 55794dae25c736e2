package peer

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

	"github.com/rogpeppe/go-internal/lockedfile"
)

// progressEvery is the time between two lines of progress.
const progressEvery = 5 * time.Second

// Missing names a tool that the peer is built with and this machine lacks, or returns "".
func (p Peer) Missing() string {
	for _, t := range p.tools {
		if _, err := exec.LookPath(t.program); err != nil {
			return fmt.Sprintf("%s is not installed: it comes with %s", t.program, t.from)
		}
	}
	return ""
}

// Build returns the peer's program, which it builds first if need be, with its progress.
func (p Peer) Build(ctx context.Context, progress io.Writer) (path string, _ error) {
	path, err := p.Path()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if lacks := p.Missing(); lacks != "" {
		return "", fmt.Errorf("the peer %s cannot be built: %s", p.Name, lacks)
	}
	folder, err := p.folder()
	if err != nil {
		return "", err
	}
	fmt.Fprintf(progress, "peer %s: building it into %s, which takes some minutes\n", p.Name, folder)
	if err := p.buildOnce(ctx, path, folder, progress); err != nil {
		return "", fmt.Errorf("the peer %s could not be built: %w", p.Name, err)
	}
	return path, nil
}

// buildOnce builds the program, unless another process that builds it now does so first.
func (p Peer) buildOnce(ctx context.Context, path, folder string, progress io.Writer) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	unlock, err := lock(ctx, folder+".lock", progress)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return p.buildInto(ctx, folder, progress)
}

// lock waits for a lock of the file until ctx ends, and says so if the wait is long.
func lock(ctx context.Context, path string, progress io.Writer) (unlock func(), _ error) {
	type held struct {
		unlock func()
		err    error
	}
	locked := make(chan held, 1)
	go func() { // ends when other processes have unlocked the file
		unlock, err := lockedfile.MutexAt(path).Lock()
		locked <- held{unlock, err}
	}()
	select {
	case h := <-locked:
		return h.unlock, h.err
	case <-time.After(progressEvery):
		fmt.Fprintf(progress, "waiting for another process, which holds %s\n", path)
	case <-ctx.Done():
	}
	select {
	case h := <-locked:
		return h.unlock, h.err
	case <-ctx.Done():
		go func() { // ends with the one above
			if h := <-locked; h.err == nil {
				h.unlock()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// buildInto builds the program in another folder and renames it, so that no one runs half of it.
func (p Peer) buildInto(ctx context.Context, folder string, progress io.Writer) error {
	beside, err := os.MkdirTemp(filepath.Dir(folder), "building-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(beside) }()
	if err := p.each(func(name string, content []byte) error { return write(filepath.Join(beside, name), content) }); err != nil {
		return err
	}
	for _, step := range p.steps {
		if err := p.run(ctx, beside, step, progress); err != nil {
			return err
		}
	}
	if p.keeps != "" {
		return os.Rename(filepath.Join(beside, p.keeps), folder)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.Rename(filepath.Join(beside, p.built), filepath.Join(folder, filepath.Base(p.built)))
}

func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// run runs a step, and counts its lines: about one for each file or library.
func (p Peer) run(ctx context.Context, folder string, step []string, progress io.Writer) error {
	const enough = 10 // lines of output in an error
	command := exec.CommandContext(ctx, step[0], step[1:]...)
	command.Dir = folder
	// Without colours, and with the target folder here.
	command.Env = append(os.Environ(), "CARGO_TERM_COLOR=never", "CARGO_TARGET_DIR="+filepath.Join(folder, "target"))
	read, write := io.Pipe()
	command.Stdout, command.Stderr = write, write
	command.WaitDelay = time.Second
	ended := make(chan error, 1)
	go func() {
		err := command.Run()
		_ = write.Close() // never fails
		ended <- err
	}()
	var last []string
	lines, printed := 0, time.Now()
	for scanner := bufio.NewScanner(read); scanner.Scan(); lines++ {
		last = append(last, strings.TrimSpace(scanner.Text()))
		last = last[max(0, len(last)-enough):]
		if time.Since(printed) > progressEvery {
			printed = time.Now()
			fmt.Fprintf(progress, "peer %s: %s, %d lines: %s\n", p.Name, step[0], lines, last[len(last)-1])
		}
	}
	_, _ = io.Copy(io.Discard, read) // the rest after a line that is too long
	if err := <-ended; err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w:\n  %s", strings.Join(step, " "), err, strings.Join(last, "\n  "))
	}
	return nil
}
