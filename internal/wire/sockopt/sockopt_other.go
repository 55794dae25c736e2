//go:build !linux

package sockopt

import "errors"

var errLinuxOnly = errors.New("wirelab sets the congestion control on Linux only")

func set(int, string) error   { return errLinuxOnly }
func get(int) (string, error) { return "", errLinuxOnly }
func trySetting(string) error { return errLinuxOnly }

// Available returns nil: only Linux reports the available congestion controls.
func Available() []string { return nil }

// Default returns "": only Linux reports the default congestion control.
func Default() string { return "" }

// InUse returns nil: only Linux reports the congestion controls in use.
func InUse() []string { return nil }
