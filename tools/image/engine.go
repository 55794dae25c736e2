package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"wirelab.dev/tools/container"
)

// engines are the programs that keep images on this machine, in the order of choice.
var engines = []string{"docker", "podman"}

// findEngine returns the first engine that works. Docker may be installed without its daemon.
func findEngine(ctx context.Context) (string, error) {
	var faults []string
	for _, program := range engines {
		said, err := exec.CommandContext(ctx, program, "info").CombinedOutput()
		if err == nil {
			return program, nil
		}
		if errors.Is(err, exec.ErrNotFound) {
			faults = append(faults, program+" is not installed")
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		faults = append(faults, fmt.Sprintf("%s info: %v: %s", program, err, lines[len(lines)-1]))
	}
	return "", fmt.Errorf("nothing here can keep an image: install docker or podman, or push it to a registry with PUSH=1, which needs neither\n  %s", strings.Join(faults, "\n  "))
}

// load gives an image to an engine of this machine.
func load(ctx context.Context, engine, named string, image v1.Image, log io.Writer) error {
	file, err := os.CreateTemp("", "wirelab-image-*.tar")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // of this run
	if err := errors.Join(container.Save(file, image, named), file.Close()); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, engine, "load", "--input", file.Name()) //nolint:gosec // one of engines
	command.Stdout, command.Stderr = log, log
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s load: %w", engine, err)
	}
	return nil
}

// push pushes an image, and returns its digest. It logs in as docker and podman have.
func push(ctx context.Context, named string, image v1.Image) (string, error) {
	tag, err := name.NewTag(named)
	if err != nil {
		return "", err
	}
	if err := remote.Write(tag, image, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return "", fmt.Errorf("push: %w: nothing was written into deploy: log in to the registry with docker or podman, or leave out PUSH", err)
	}
	digest, err := image.Digest()
	return digest.String(), err
}
