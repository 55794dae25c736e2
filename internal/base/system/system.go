// Package system holds what is done in one way on Unix, and in another on Windows: locks on files,
// process groups, signals, and waiting for a key.
//
// This package must not know who locks what, nor what runs in a process.
package system

import "errors"

// ErrLocked says that another process has locked the file.
var ErrLocked = errors.New("another process has locked the file")

// Counts holds what the kernel counted of an ended process.
type Counts struct{ VoluntarySwitches, InvoluntarySwitches, MinorFaults, MajorFaults int64 }
