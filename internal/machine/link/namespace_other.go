//go:build !linux

package link

import (
	"os/exec"

	"wirelab.dev/internal/machine/host"
)

type namespace struct{}

func newNamespace(Settings) (*namespace, error) {
	return nil, host.NeedsLinux("make a network namespace")
}

func (*namespace) enter() error                 { return nil }
func (*namespace) runInside(func() error) error { return nil }
func (*namespace) close() error                 { return nil }

func newLink(s Settings) (*Network, error) {
	_, err := newNamespace(s)
	return nil, err
}

// SetUserNamespace and ExplainUserNamespace do nothing on this system.
func SetUserNamespace(*exec.Cmd) {}

func ExplainUserNamespace(err error) error { return err }
