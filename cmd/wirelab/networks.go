package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/link"
)

// inUserNamespace runs the whole command again in a user namespace where a scenario asks
// for networks of its own and this process may not make them, but may there. The error is
// then how the command ended, never nil. It is nil where this process is to go on. It
// comes before all that has an effect.
func (a *app) inUserNamespace(ctx context.Context, scenarios ...*scenario.Scenario) error {
	if !slices.ContainsFunc(scenarios, asksForNetwork) {
		return nil
	}
	return a.withNetworks(ctx)
}

func asksForNetwork(s *scenario.Scenario) bool {
	return slices.ContainsFunc(s.Parts, func(p scenario.Part) bool { return p.Network != scenario.Network{} })
}

func (a *app) withNetworks(ctx context.Context) error {
	if link.Check() == nil || whyNoUserNamespace(ctx) != "" {
		return nil // if there are none at all, refuseNetworks or the first trial says why
	}
	again, err := programInUserNamespace(ctx, os.Args[1:]...)
	if err != nil {
		return err
	}
	// The first Ctrl-C is for the other process, which reports what it has. At the second
	// this one ends, and the other with it.
	again.Cancel = func() error { return again.Process.Signal(os.Interrupt) }
	again.Stdin, again.Stdout, again.Stderr = a.stdin, a.stdout, a.stderr
	if err := runToEnd(again); again.ProcessState == nil || !again.ProcessState.Exited() {
		return fmt.Errorf("wirelab in a user namespace: %w", err)
	}
	return exitError{code: again.ProcessState.ExitCode()}
}

// refuseNetworks is an error where all that a scenario measures is in networks that can be
// made neither here nor in a user namespace.
func refuseNetworks(ctx context.Context, s *scenario.Scenario) error {
	if slices.ContainsFunc(s.Parts, func(p scenario.Part) bool { return p.Network == scenario.Network{} }) {
		return nil
	}
	err := link.Check()
	if err == nil {
		return nil
	}
	return errors.New(cmp.Or(whyNoUserNamespace(ctx), err.Error()))
}

// programInUserNamespace is wirelab's own program, to be started there.
func programInUserNamespace(ctx context.Context, args ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find wirelab's own program, to start it in a user namespace: %w", err)
	}
	program := exec.CommandContext(ctx, path, args...)
	link.InUserNamespace(program)
	return program, nil
}

// runToEnd runs a program that ends with this one.
func runToEnd(program *exec.Cmd) error {
	if _, err := host.StartPinned(program, host.Surroundings{}); err != nil {
		return link.ExplainUserNamespace(err)
	}
	return program.Wait()
}

const networksCommand = "networks"

// whyNoUserNamespace makes a network in a user namespace, and says why there can be none.
func whyNoUserNamespace(ctx context.Context) string {
	try, err := programInUserNamespace(ctx, networksCommand)
	if err != nil {
		return err.Error()
	}
	var said bytes.Buffer
	try.Stderr = &said
	if err := runToEnd(try); err != nil {
		return cmp.Or(strings.TrimPrefix(strings.TrimSpace(said.String()), "wirelab: "), err.Error())
	}
	return ""
}

// networksCommand makes a network, or fails and says why.
func (a *app) networksCommand() *cobra.Command {
	return a.partCommand(networksCommand, "Make a network of a trial's own, and end", func(context.Context, io.Reader, io.Writer) error { return link.Check() })
}
