// Package host says what this machine is, what it may do, and how quiet it is.
//
//  1. [Describe] fills the manifest of a run, so that its figures can be
//     understood years later.
//  2. [Place] and [StartPinned] give server and client separate CPUs.
//  3. [Doctor], [Calibrate] and [Snapshot] check whether the machine is quiet
//     enough: before a run, between trials, and during a trial.
//
// The package reads procfs and sysfs through an [fs.FS], so that tests can
// describe any machine. All raw system calls are in sys_linux.go; sys_other.go
// has stubs for other systems.
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

import "wirelab.dev/internal/base/unsupported"

// ErrUnsupported is wrapped by every error that means "this machine cannot",
// in contrast to "this failed". The text that wraps it says what would make
// it possible. It is an errors.ErrUnsupported.
var ErrUnsupported error = unsupported.Error("not supported on this machine")
