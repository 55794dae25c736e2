package host

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
)

// An Allowance holds the CPUs that the kernel lets a process use.
type Allowance struct {
	// CPUs lists the CPUs on which at least one of its threads may run.
	CPUs []int `json:"cpus"`
	// QuotaCPUs is the CPU time that its control groups grant, in CPUs; 0: no limit.
	QuotaCPUs float64 `json:"quota_cpus,omitempty"`
	// TracedBy is the process that traces one of its threads, as a debugger does; 0: none.
	TracedBy int `json:"traced_by,omitempty"`
}

// Plus returns what two processes on machines of their own may use together. CPUs is empty, since
// CPUs of different machines have the same numbers; there is no quota unless both have one.
func (a Allowance) Plus(other Allowance) Allowance {
	sum := Allowance{TracedBy: cmp.Or(a.TracedBy, other.TracedBy)}
	if a.QuotaCPUs > 0 && other.QuotaCPUs > 0 {
		sum.QuotaCPUs = a.QuotaCPUs + other.QuotaCPUs
	}
	return sum
}

// AllowanceOf reads the allowance of a process (10 µs, and 10 µs a thread).
func AllowanceOf(pid int) (Allowance, error) {
	return readAllowance(os.DirFS("/"), strconv.Itoa(pid))
}

func readAllowance(root fs.FS, process string) (Allowance, error) {
	allowance := Allowance{QuotaCPUs: readQuota(root, process)}
	tasks := "proc/" + process + "/task"
	threads, err := fs.ReadDir(root, tasks)
	if err != nil {
		return Allowance{}, fmt.Errorf("read the CPUs of process %s: %w", process, err)
	}
	for _, thread := range threads {
		status, err := readText(root, tasks+"/"+thread.Name()+"/status")
		if err != nil {
			continue // it ended since it was listed
		}
		cpus, err := ParseCPUList(labelled(status, "Cpus_allowed_list"))
		if err != nil {
			return Allowance{}, fmt.Errorf("read the CPUs of process %s: %w", process, err)
		}
		allowance.CPUs = append(allowance.CPUs, cpus...)
		if tracer, err := strconv.Atoi(labelled(status, "TracerPid")); err == nil && tracer > 0 {
			allowance.TracedBy = tracer
		}
	}
	slices.Sort(allowance.CPUs)
	allowance.CPUs = slices.Compact(allowance.CPUs)
	return allowance, nil
}
