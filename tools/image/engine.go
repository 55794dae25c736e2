package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// engines are the programs that can build an image, in the order of choice.
var engines = []string{"docker", "podman", "buildah"}

// An engine builds and pushes images.
type engine struct {
	program string
	log     io.Writer
}

// findEngine returns the first engine that works. Docker may be installed without its daemon.
func findEngine(ctx context.Context) (*engine, error) {
	var faults []string
	for _, program := range engines {
		said, err := exec.CommandContext(ctx, program, "info").CombinedOutput()
		if err == nil {
			return &engine{program: program}, nil
		}
		if errors.Is(err, exec.ErrNotFound) {
			faults = append(faults, program+" is not installed")
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		faults = append(faults, fmt.Sprintf("%s info: %v: %s", program, err, lines[len(lines)-1]))
	}
	return nil, fmt.Errorf("nothing here can build an image: install docker, podman or buildah (the last needs no daemon)\n  %s", strings.Join(faults, "\n  "))
}

// build makes an image of the folder. All files of it have the commit's time.
func (e *engine) build(ctx context.Context, name, containerfile, folder, seconds string) error {
	arguments := []string{"build", "--file", containerfile, "--tag", name}
	if e.program != "docker" {
		arguments = append(arguments, "--timestamp", seconds)
	}
	return e.run(ctx, []string{"SOURCE_DATE_EPOCH=" + seconds}, append(arguments, folder)...)
}

// run runs the engine, which writes to the log.
func (e *engine) run(ctx context.Context, environment []string, arguments ...string) error {
	command := exec.CommandContext(ctx, e.program, arguments...)
	command.Env = append(os.Environ(), environment...)
	command.Stdout, command.Stderr = e.log, e.log
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", e.program, arguments[0], err)
	}
	return nil
}

var digestForm = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// push pushes an image, and returns the digest that the registry knows it by.
func (e *engine) push(ctx context.Context, name string) (string, error) {
	var said []byte
	if e.program == "docker" {
		if err := e.run(ctx, nil, "push", name); err != nil {
			return "", explainPush(err)
		}
		out, err := exec.CommandContext(ctx, e.program, "image", "inspect", "--format", `{{join .RepoDigests "\n"}}`, name).Output()
		if err != nil {
			return "", fmt.Errorf("docker image inspect: %w", err)
		}
		repository := name[:strings.LastIndexByte(name, ':')]
		for line := range bytes.Lines(out) { // the image may be in other registries, too
			if bytes.HasPrefix(line, []byte(repository+"@")) {
				said = line
			}
		}
	} else {
		folder, err := os.MkdirTemp("", "wirelab-digest-")
		if err != nil {
			return "", err
		}
		defer func() { _ = os.RemoveAll(folder) }() // of this run
		file := filepath.Join(folder, "digest")
		if err := e.run(ctx, nil, "push", "--digestfile", file, name); err != nil {
			return "", explainPush(err)
		}
		if said, err = os.ReadFile(file); err != nil {
			return "", err
		}
	}
	digest := digestForm.Find(said)
	if digest == nil {
		return "", fmt.Errorf("%s pushed %s, but did not say its digest: %q", e.program, name, said)
	}
	return string(digest), nil
}

func explainPush(err error) error {
	return fmt.Errorf("%w: the image is built, and nothing was written into deploy: log in to the registry, or leave out PUSH", err)
}
