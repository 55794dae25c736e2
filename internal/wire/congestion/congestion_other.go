//go:build !linux

package congestion

import "errors"

var errElsewhere = errors.New("wirelab chooses it on Linux only")

func set(int, string) error   { return errElsewhere }
func get(int) (string, error) { return "", errElsewhere }
func try(string) error        { return errElsewhere }

// Available lists what the kernel has loaded: nothing that is known.
func Available() []string { return nil }

// Default is that of sockets for which none is asked: it is not known.
func Default() string { return "" }

// InUse lists the congestion controls of this process's TCP sockets: none is known.
func InUse() []string { return nil }
