//go:build !linux

package congestion

import "errors"

var errElsewhere = errors.New("wirelab sets it on Linux only")

func set(int, string) error   { return errElsewhere }
func get(int) (string, error) { return "", errElsewhere }
func try(string) error        { return errElsewhere }

// Available returns nil: only Linux reports the list.
func Available() []string { return nil }

// Default returns "": only Linux reports it.
func Default() string { return "" }

// InUse returns nil: only Linux reports them.
func InUse() []string { return nil }
