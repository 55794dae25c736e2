// Package host says what this machine is, what it may do, and how quiet it is.
//
// Three questions are answered here, each for a different reader. [Describe]
// fills the manifest of a run, so that a figure can be read years later.
// [Place] and [StartPinned] isolate server and client on CPUs of their own.
// [Doctor], [Calibrate] and [Snapshot] tell whether the machine can be trusted:
// before anything runs, between trials, and over a trial.
//
// Everything that is read comes from procfs and sysfs through an [fs.FS], so
// that tests can describe machines that nobody owns; every raw system call is
// in sys_linux.go, with its answer for other systems in sys_other.go.
//
// The package must not know what is measured: no stack, no worker, no record.
//
// Glossary
//
//	CPU         what the kernel schedules on: one hardware thread
//	core        the CPUs that share execution units; one or more
//	sibling     another CPU of the same core (SMT)
//	package     a processor socket
//	efficiency  a slow core of a hybrid processor (Intel E-core, Arm LITTLE)
//	allowed     the CPUs that this process's affinity mask admits
//	quota       CPU time that the control groups grant, counted in CPUs
//	steal       time when the hypervisor ran another machine on our CPU
//	pressure    time when a runnable task waited for a CPU (PSI)
package host

import "errors"

// ErrUnsupported is wrapped by every error that means "this machine cannot",
// in contrast to "this failed". The text that wraps it says what would make
// it possible.
var ErrUnsupported = errors.New("not supported on this machine")
