package host

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cpuGroups lists the folders of a process's control groups that can limit its CPU time, and their
// ancestors, for version 1, version 2 and the hybrid of both. process is a process number, or
// "self".
//
// Inside a container the path may be the host's. The walk then ends at the mount's root, which is
// the container's own group.
func cpuGroups(root fs.FS, process string) []string {
	text, _ := readText(root, "proc/"+process+"/cgroup") // without procfs there are none
	var folders []string
	for line := range strings.Lines(text) {
		// hierarchy:controllers:path, cgroups(7)
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		controllers, group := fields[1], fields[2]
		switch {
		case controllers == "":
			folders = append(folders, ancestors(root, group, "cpu.max", "sys/fs/cgroup", "sys/fs/cgroup/unified")...)
		case strings.Contains(","+controllers+",", ",cpu,"):
			folders = append(folders, ancestors(root, group, "cpu.cfs_quota_us", "sys/fs/cgroup/cpu", "sys/fs/cgroup/"+controllers)...)
		}
	}
	return folders
}

// ancestors returns the folders from a group up to the mount's root that hold the file. The first
// mount with such a folder counts: another mount may show the same groups again.
func ancestors(root fs.FS, group, file string, mounts ...string) []string {
	for _, mount := range mounts {
		var folders []string
		for group := path.Clean("/" + group); ; group = path.Dir(group) {
			folder := path.Join(mount, group)
			if _, err := fs.Stat(root, path.Join(folder, file)); err == nil {
				folders = append(folders, folder)
			}
			if group == "/" {
				break
			}
		}
		if len(folders) > 0 {
			return folders
		}
	}
	return nil
}

// readQuota returns the CPU time that a process's control groups grant, in CPUs: the smallest
// grant of all groups, or 0 without a limit.
func readQuota(root fs.FS, process string) float64 {
	quota := math.Inf(1)
	for _, folder := range cpuGroups(root, process) {
		// "max 100000" or "150000 100000": microseconds per period. Version 1 has the
		// same in two files, with -1 for no limit.
		quota = min(quota, quotaOf(root, folder, "cpu.max"), quotaOf(root, folder, "cpu.cfs_quota_us", "cpu.cfs_period_us"))
	}
	if math.IsInf(quota, 1) {
		return 0
	}
	return quota
}

// quotaOf divides the granted time by the period. Without a limit it returns +Inf.
func quotaOf(root fs.FS, folder string, files ...string) float64 {
	var fields []string
	for _, file := range files {
		content, _ := readText(root, path.Join(folder, file)) // absent: too few fields
		fields = append(fields, strings.Fields(content)...)
	}
	if len(fields) != 2 {
		return math.Inf(1)
	}
	granted, err := strconv.ParseFloat(fields[0], 64)
	period, periodErr := strconv.ParseFloat(fields[1], 64)
	if err != nil || periodErr != nil || !(granted > 0) || !(period > 0) {
		return math.Inf(1)
	}
	return granted / period
}

// A Throttle reads for how long control groups stopped a process because its quota was used up.
type Throttle struct {
	files []*os.File
	text  [1 << 10]byte // cpu.stat has ten lines
}

// Throttled counts how often and how long control groups were stopped, over all their CPUs.
type Throttled struct{ TimeNS, Periods int64 }

// OpenThrottle opens the groups of a process. Open files make a reading three times as fast.
func OpenThrottle(pid int) *Throttle { return openThrottle("/", strconv.Itoa(pid)) }

func openThrottle(root, process string) *Throttle {
	var t Throttle
	for _, folder := range cpuGroups(os.DirFS(root), process) {
		if file, err := os.Open(filepath.Join(root, folder, "cpu.stat")); err == nil {
			t.files = append(t.files, file)
		}
	}
	return &t
}

// Read returns the sum over the groups. It costs 2 µs per group and allocates nothing.
func (t *Throttle) Read() (Throttled, error) {
	var sum Throttled
	for _, file := range t.files {
		count, err := file.ReadAt(t.text[:], 0)
		if count == 0 {
			return Throttled{}, fmt.Errorf("read how long a control group was stopped: %w", err)
		}
		one := parseThrottled(t.text[:count])
		sum.TimeNS += one.TimeNS
		sum.Periods += one.Periods
	}
	return sum, nil
}

// parseThrottled reads cpu.stat: version 1 has throttled_time in nanoseconds, version 2
// throttled_usec. The root group has neither.
func parseThrottled(stat []byte) Throttled {
	var t Throttled
	for line := range bytes.Lines(stat) {
		name, figure, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		value, _ := strconv.ParseInt(string(figure), 10, 64)
		switch string(name) {
		case "nr_throttled":
			t.Periods = value
		case "throttled_time":
			t.TimeNS = value
		case "throttled_usec":
			t.TimeNS = 1000 * value
		}
	}
	return t
}

// quotaPeriod is the kernel's default period.
const quotaPeriod = 100 * time.Millisecond

// NewQuotaGroup makes a control group that grants a number of CPUs. It returns the group's folder;
// removing the folder ends the group. Without such groups the error wraps ErrUnsupported.
func NewQuotaGroup(name string, cpus float64) (folder string, err error) {
	granted := int64(cpus * float64(quotaPeriod/time.Microsecond))
	period := int64(quotaPeriod / time.Microsecond)
	for i, version := range []struct{ has, file, text string }{
		{"cpu.cfs_quota_us", "cpu.cfs_quota_us", strconv.FormatInt(granted, 10)},
		{"cgroup.controllers", "cpu.max", fmt.Sprintf("%d %d", granted, period)},
	} {
		folder := QuotaGroupFolders(name)[i]
		if _, err := os.Stat(filepath.Join(filepath.Dir(folder), version.has)); err != nil {
			continue
		}
		if err := os.Mkdir(folder, 0o755); err != nil && !os.IsExist(err) {
			return "", fmt.Errorf("make a control group: %w (%w): run as root, with a writable /sys/fs/cgroup", err, ErrUnsupported)
		}
		if err := os.WriteFile(filepath.Join(folder, version.file), []byte(version.text), 0); err != nil {
			return "", errors.Join(fmt.Errorf("set a CPU quota: %w (%w): it needs the cpu controller", err, ErrUnsupported), os.Remove(folder))
		}
		return folder, nil
	}
	return "", fmt.Errorf("no control group grants CPU time here: %w", ErrUnsupported)
}

// QuotaGroupFolders returns the folders of a group, one per version of control groups.
func QuotaGroupFolders(name string) []string {
	return []string{"/sys/fs/cgroup/cpu/" + name, "/sys/fs/cgroup/" + name}
}

// JoinGroup puts a process into a control group.
func JoinGroup(folder string, pid int) error {
	return os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// An Allowance holds the CPUs that the kernel lets a process use.
type Allowance struct {
	// CPUs lists the CPUs on which at least one of its threads may run.
	CPUs []int `json:"cpus"`
	// QuotaCPUs is the CPU time that its control groups grant, in CPUs; 0: no limit.
	QuotaCPUs float64 `json:"quota_cpus,omitempty"`
	// TracedBy is the process that traces one of its threads, as a debugger does; 0: none.
	TracedBy int `json:"traced_by,omitempty"`
}

// Plus returns the allowance of processes on two machines together. CPUs is empty, since the CPUs
// of both machines have the same numbers; without both quotas there is none.
func (a Allowance) Plus(other Allowance) Allowance {
	sum := Allowance{TracedBy: cmp.Or(a.TracedBy, other.TracedBy)}
	if a.QuotaCPUs > 0 && other.QuotaCPUs > 0 {
		sum.QuotaCPUs = a.QuotaCPUs + other.QuotaCPUs
	}
	return sum
}

// AllowanceOf reads the allowance of a process. It costs 10 µs, and 10 µs per thread.
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
			continue // it has ended since it was listed
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
