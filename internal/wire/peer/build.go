package peer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
)

const progressEvery = 5 * time.Second

// Missing returns an error text about what the build needs and this machine lacks, or "".
func (p Peer) Missing() string {
	if p.module != "" {
		if _, err := findCheckout(); err != nil {
			return err.Error()
		}
	}
	for _, t := range p.tools {
		if _, err := exec.LookPath(t.program); err != nil {
			return fmt.Sprintf("%s is not installed: install %s", t.program, t.from)
		}
	}
	return ""
}

// CheckBuild returns the error of Build for a program that does not exist and cannot be built here.
// It builds nothing.
func (p Peer) CheckBuild() error {
	_, _, err := p.find()
	return err
}

// find returns the path of the peer's program, and whether the program exists. It returns an error
// if the program does not exist and cannot be built here.
func (p Peer) find() (path string, exists bool, _ error) {
	path, err := p.Path()
	if _, absent := os.Stat(path); err == nil && absent == nil {
		return path, true, nil
	}
	if lacks := p.Missing(); lacks != "" {
		return "", false, fmt.Errorf("cannot build the peer %s: %s", p.Name, lacks)
	}
	return path, false, err
}

// Build returns the path of the peer's program. If the program does not exist, Build builds it and
// writes progress lines.
func (p Peer) Build(ctx context.Context, progress io.Writer) (path string, _ error) {
	path, exists, err := p.find()
	if exists || err != nil {
		return path, err
	}
	folder, err := p.cacheFolder()
	if err != nil {
		return "", err
	}
	fmt.Fprintf(progress, "peer %s: building into %s; this takes some minutes\n", p.Name, folder)
	if err := p.buildOnce(ctx, path, folder, progress); err != nil {
		return "", fmt.Errorf("build the peer %s: %w", p.Name, err)
	}
	return path, nil
}

// buildOnce builds the program, unless another process has just built it.
func (p Peer) buildOnce(ctx context.Context, path, folder string, progress io.Writer) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	unlock, err := lockFile(ctx, folder+".lock", progress)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return p.buildInto(ctx, folder, progress)
}

// lockFile locks a file, or fails when ctx ends. If that takes long, it writes a line to progress.
func lockFile(ctx context.Context, path string, progress io.Writer) (unlock func(), _ error) {
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
		fmt.Fprintf(progress, "waiting for another wirelab process, which has locked %s\n", path)
	case <-ctx.Done():
	}
	select {
	case h := <-locked:
		return h.unlock, h.err
	case <-ctx.Done():
		go func() { // ends with the goroutine above
			if h := <-locked; h.err == nil {
				h.unlock()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// buildInto builds the program into a temporary folder and then renames the folder, so that no
// process runs a partial program.
func (p Peer) buildInto(ctx context.Context, folder string, progress io.Writer) error {
	beside, err := os.MkdirTemp(filepath.Dir(folder), "building-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(beside) }()
	at := beside
	if p.module != "" {
		root, err := findCheckout()
		if err != nil {
			return err
		}
		at = filepath.Join(root, p.module)
	} else if err := p.eachSource(func(name string, content []byte) error { return writeFile(filepath.Join(beside, name), content) }); err != nil {
		return err
	}
	for _, step := range p.steps {
		step = slices.Clone(step)
		if i := slices.Index(step, outputName); i >= 0 {
			step[i] = filepath.Join(beside, p.built)
		}
		if err := p.run(ctx, at, step, progress); err != nil {
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

func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// run runs one build step. Its progress is the number of output lines, about one per file.
func (p Peer) run(ctx context.Context, folder string, step []string, progress io.Writer) error {
	const enough = 10 // number of output lines that an error shows
	command := exec.CommandContext(ctx, step[0], step[1:]...)
	command.Dir = folder
	// These variables turn off colours and set cargo's target folder.
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
	_, _ = io.Copy(io.Discard, read) // discard the output after a line that is too long
	if err := <-ended; err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w:\n  %s", strings.Join(step, " "), err, strings.Join(last, "\n  "))
	}
	return nil
}
