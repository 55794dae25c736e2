package plan

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

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/link"
)

// NeedsNetwork reports whether a scenario asks for networks of its own.
func NeedsNetwork(s *scenario.Scenario) bool {
	return slices.ContainsFunc(s.Parts, func(p scenario.Part) bool { return p.Network != scenario.Network{} })
}

// A Terminal is the standard streams of a program that runs in a user namespace.
type Terminal struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// RunInUserNamespace runs this whole command again in a user namespace, if networks can be made
// there and not here, and returns its exit code. If ran is false and err nil, this process goes
// on. It must be called before anything has an effect.
func RunInUserNamespace(ctx context.Context, streams Terminal) (exitCode int, ran bool, err error) {
	if link.Check() == nil || WhyNoUserNamespace(ctx) != "" {
		return 0, false, nil // if there are none at all, Prepare or the first trial says why
	}
	again, err := InUserNamespace(ctx, os.Args[1:]...)
	if err != nil {
		return 0, false, err
	}
	// The first Ctrl-C is for the other process, which reports what it has. At the second
	// this one ends, and the other with it.
	again.Cancel = func() error { return again.Process.Signal(os.Interrupt) }
	again.Stdin, again.Stdout, again.Stderr = streams.Stdin, streams.Stdout, streams.Stderr
	if err := RunToEnd(again); again.ProcessState == nil || !again.ProcessState.Exited() {
		return 0, false, fmt.Errorf("wirelab in a user namespace: %w", err)
	}
	return again.ProcessState.ExitCode(), true, nil
}

// refuseNetworks fails where everything that a scenario measures is in networks that can be made
// neither here nor in a user namespace.
func refuseNetworks(ctx context.Context, s *scenario.Scenario) error {
	if slices.ContainsFunc(s.Parts, func(p scenario.Part) bool { return p.Network == scenario.Network{} }) {
		return nil
	}
	err := link.Check()
	if err == nil {
		return nil
	}
	return errors.New(cmp.Or(WhyNoUserNamespace(ctx), err.Error()))
}

// InUserNamespace returns a command that starts wirelab's own program in a user namespace. It is
// run by RunToEnd.
func InUserNamespace(ctx context.Context, args ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find wirelab's own program, to start it in a user namespace: %w", err)
	}
	program := exec.CommandContext(ctx, path, args...)
	link.InUserNamespace(program)
	return program, nil
}

// RunToEnd runs a program that ends with this one.
func RunToEnd(program *exec.Cmd) error {
	if _, err := host.StartPinned(program, host.Surroundings{}); err != nil {
		return link.ExplainUserNamespace(err)
	}
	return program.Wait()
}

// NetworksCommand is the hidden command that makes a network, or fails and says why.
const NetworksCommand = "networks"

// WhyNoUserNamespace makes a network in a user namespace. It returns "", or why it failed.
func WhyNoUserNamespace(ctx context.Context) string {
	try, err := InUserNamespace(ctx, NetworksCommand)
	if err != nil {
		return err.Error()
	}
	var said bytes.Buffer
	try.Stderr = &said
	if err := RunToEnd(try); err != nil {
		return cmp.Or(strings.TrimPrefix(strings.TrimSpace(said.String()), "wirelab: "), err.Error())
	}
	return ""
}
