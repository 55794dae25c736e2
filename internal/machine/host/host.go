// Package host describes this machine, its rights and limits, and disturbances by other programs.
//
//  1. [Describe] describes the machine for the manifest of a run.
//  2. [Place] and [StartPinned] give server and client separate CPUs.
//  3. [Doctor], [MeasureNoise] and [ReadActivity] check whether other programs disturb trials.
//
// The package reads procfs and sysfs through an [fs.FS], so that tests can describe any machine.
// All raw system calls are in sys_linux.go; sys_other.go has stubs for other systems.
//
// The package must not know what is measured, nor stacks or workers.
//
// Glossary
//
//	CPU         one hardware thread, on which the kernel runs one thread at a time
//	core        one or more CPUs that share execution units
//	sibling     another CPU of the same core (SMT)
//	package     a processor socket
//	efficiency  a slow core of a hybrid processor (Intel E-core, Arm LITTLE)
//	allowed     the CPUs on which this process may run (its affinity mask)
//	quota       the CPU time that the control groups grant, as a number of CPUs
//	steal       time for which the hypervisor ran another virtual machine on our CPU
//	pressure    time for which a task was ready to run but had no CPU (PSI)
package host

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"wirelab.dev/internal/base/unsupported"
)

// ErrUnsupported means that this machine cannot do something. An error that wraps it says how the
// user can make it possible.
var ErrUnsupported error = unsupported.Error("not supported on this machine")

// facts reads small kernel files below a root directory. It lists the files that it could not read.
type facts struct {
	root    fs.FS
	missing []string
}

// text returns the content of a file without surrounding spaces. If it cannot read the file, it
// adds the file to missing and returns "".
func (f *facts) text(path string) string {
	content, err := readText(f.root, path)
	if err != nil {
		f.addMissing(path, err)
		return ""
	}
	return content
}

// number returns the first integer in a file. If there is none, it adds the file to missing and
// returns 0.
func (f *facts) number(path string) int64 {
	content := f.text(path)
	if content == "" {
		return 0
	}
	value, err := strconv.ParseInt(strings.Fields(content)[0], 10, 64)
	if err != nil {
		f.addMissing(path, err)
		return 0
	}
	return value
}

func (f *facts) addMissing(what string, why error) {
	f.missing = append(f.missing, fmt.Sprintf("%s: %s", what, errorReason(why)))
}

// errorReason returns the text of an error. For a file error, it leaves out operation and path.
func errorReason(err error) string {
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

// valueOfLabel returns the value of the first line "label: value" with a value, or "".
func valueOfLabel(text, label string) string {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); value != "" && strings.TrimSpace(key) == label {
			return value
		}
	}
	return ""
}

// bracketedWord returns the word in brackets in a sysfs file such as "always [madvise] never".
func bracketedWord(selector string) string {
	_, after, found := strings.Cut(selector, "[")
	if !found {
		return selector
	}
	word, _, _ := strings.Cut(after, "]")
	return word
}

// ParseCPUList parses a list of CPUs in the kernel's form, such as "0-3,8,10-11" ("cpu lists" in
// Documentation/admin-guide/kernel-parameters). It refuses numbers that are too large.
func ParseCPUList(list string) ([]int, error) {
	const maxCPUs = 8192 // the largest NR_CPUS of all architectures
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
		if err != nil || first < 0 || last < first || last >= maxCPUs || len(cpus) >= maxCPUs {
			return nil, fmt.Errorf("parse CPU list %q: %q is not a CPU number or a range such as 0-3", list, part)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
