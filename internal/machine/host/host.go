// Package host describes this machine, its rights and limits, and how quiet it is.
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

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"wirelab.dev/internal/base/unsupported"
)

// ErrUnsupported is wrapped by every error that means "this machine cannot", in contrast to "this
// failed". The wrapping text says what would make it possible.
var ErrUnsupported error = unsupported.Error("not supported on this machine")

// facts reads small kernel files below a root, and collects those that it could not read.
type facts struct {
	root    fs.FS
	missing []string
}

// text returns the trimmed content of a file, or "" and a note.
func (f *facts) text(path string) string {
	content, err := readText(f.root, path)
	if err != nil {
		f.miss(path, err)
		return ""
	}
	return content
}

// number returns the first integer of a file, or 0 and a note.
func (f *facts) number(path string) int64 {
	content := f.text(path)
	if content == "" {
		return 0
	}
	value, err := strconv.ParseInt(strings.Fields(content)[0], 10, 64)
	if err != nil {
		f.miss(path, err)
		return 0
	}
	return value
}

func (f *facts) miss(what string, why error) {
	f.missing = append(f.missing, fmt.Sprintf("%s: %s", what, cause(why)))
}

// cause returns an fs error's reason, without the operation and path that the error repeats.
func cause(err error) string {
	if pathError, found := errors.AsType[*fs.PathError](err); found {
		return pathError.Err.Error()
	}
	return err.Error()
}

func readText(root fs.FS, path string) (string, error) {
	content, err := fs.ReadFile(root, path)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(content)), nil
}

func readInt(root fs.FS, path string, absent int) int {
	content, _ := readText(root, path)
	if value, err := strconv.Atoi(content); err == nil {
		return value
	}
	return absent
}

// labelled returns the value of the first line "label: value" that has one, or "".
func labelled(text, label string) string {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); value != "" && strings.TrimSpace(key) == label {
			return value
		}
	}
	return ""
}

// chosen returns the bracketed word of a sysfs selector such as "always [madvise] never".
func chosen(selector string) string {
	_, after, found := strings.Cut(selector, "[")
	if !found {
		return selector
	}
	word, _, _ := strings.Cut(after, "]")
	return word
}

// ParseCPUList reads the kernel's list notation, "0-3,8,10-11"
// (Documentation/admin-guide/kernel-parameters, "cpu lists"). It refuses impossible CPUs.
func ParseCPUList(list string) ([]int, error) {
	const mostCPUs = 8192 // the largest NR_CPUS that any architecture allows
	cpus := []int{}
	list = strings.TrimSpace(list)
	if list == "" {
		return cpus, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(high)
		}
		if err != nil || first < 0 || last < first || last >= mostCPUs || len(cpus) >= mostCPUs {
			return nil, fmt.Errorf("parse CPU list %q: bad part %q", list, part)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
