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

// cpuControlGroups returns the folders of all control groups that can limit a process's CPU time:
// its own groups and their ancestors. It supports versions 1 and 2 of control groups, and systems
// that use both. process is a process number, or "self".
//
// In a container, a group's path may be the host's path. Then only the root of the mount exists,
// which is the container's own group.
func cpuControlGroups(root fs.FS, process string) []string {
	text, _ := readText(root, "proc/"+process+"/cgroup") // no groups after an error
	var folders []string
	for line := range strings.Lines(text) {
		// A line has the form "hierarchy:controllers:path" (cgroups(7)).
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		controllers, group := fields[1], fields[2]
		switch {
		case controllers == "":
			folders = append(folders, groupAndAncestors(root, group, "cpu.max", "sys/fs/cgroup", "sys/fs/cgroup/unified")...)
		case strings.Contains(","+controllers+",", ",cpu,"):
			folders = append(folders, groupAndAncestors(root, group, "cpu.cfs_quota_us", "sys/fs/cgroup/cpu", "sys/fs/cgroup/"+controllers)...)
		}
	}
	return folders
}

// groupAndAncestors returns the folders that contain the file, from a group up to the root of its
// mount. It uses only the first mount with such a folder, because several mounts may show the same
// groups.
func groupAndAncestors(root fs.FS, group, file string, mounts ...string) []string {
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

// readQuota returns the CPU quota of a process as a number of CPUs. It is the smallest quota of its
// control groups, or 0 if there is none.
func readQuota(root fs.FS, process string) float64 {
	quota := math.Inf(1)
	for _, folder := range cpuControlGroups(root, process) {
		// cpu.max holds the quota and the period in microseconds, such as "150000 100000", or "max
		// 100000". Version 1 has a separate file for each value; a quota of -1 means no limit.
		quota = min(quota, groupQuota(root, folder, "cpu.max"), groupQuota(root, folder, "cpu.cfs_quota_us", "cpu.cfs_period_us"))
	}
	if math.IsInf(quota, 1) {
		return 0
	}
	return quota
}

// groupQuota returns the CPU quota of a group as a number of CPUs: quota divided by period, or +Inf
// without a limit.
func groupQuota(root fs.FS, folder string, files ...string) float64 {
	var fields []string
	for _, file := range files {
		content, _ := readText(root, path.Join(folder, file)) // no fields after an error
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

// A ThrottleReader reads for how long the CPU quota stopped a process.
type ThrottleReader struct {
	files []*os.File
	text  [1 << 10]byte // cpu.stat has ten short lines
}

// A ThrottleCount holds for how long (summed over CPUs) and how often control groups were stopped.
type ThrottleCount struct{ TimeNS, Periods int64 }

// OpenThrottle opens the files of a process's control groups. The files stay open, which makes
// readings three times as fast.
func OpenThrottle(pid int) *ThrottleReader { return openThrottle("/", strconv.Itoa(pid)) }

func openThrottle(root, process string) *ThrottleReader {
	var t ThrottleReader
	for _, folder := range cpuControlGroups(os.DirFS(root), process) {
		if file, err := os.Open(filepath.Join(root, folder, "cpu.stat")); err == nil {
			t.files = append(t.files, file)
		}
	}
	return &t
}

// Files returns the number of files that Read reads.
func (t *ThrottleReader) Files() int { return len(t.files) }

// Read returns the sum over all groups. It takes 2 µs per group and allocates no memory.
func (t *ThrottleReader) Read() (ThrottleCount, error) {
	var sum ThrottleCount
	for _, file := range t.files {
		count, err := file.ReadAt(t.text[:], 0)
		if count == 0 {
			return ThrottleCount{}, fmt.Errorf("read a control group's throttled time: %w", err)
		}
		one := parseThrottled(t.text[:count])
		sum.TimeNS += one.TimeNS
		sum.Periods += one.Periods
	}
	return sum, nil
}

// parseThrottled parses cpu.stat. Version 1 has a line throttled_time in nanoseconds, version 2 a
// line throttled_usec in microseconds. The root group's file has neither line.
func parseThrottled(stat []byte) ThrottleCount {
	var t ThrottleCount
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

const quotaPeriod = 100 * time.Millisecond

// NewQuotaGroup makes a control group with a CPU quota and returns its folder. To delete the group,
// remove the folder. If no such group can be made, the error wraps ErrUnsupported.
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
			return "", errors.Join(fmt.Errorf("set a CPU quota: %w (%w): enable the cpu controller for %s", err, ErrUnsupported, folder), os.Remove(folder))
		}
		return folder, nil
	}
	return "", fmt.Errorf("make a control group with a CPU quota: %w: mount control groups on /sys/fs/cgroup, with the cpu controller", ErrUnsupported)
}

// QuotaGroupFolders returns a group's folders in version 1 and in version 2 of control groups.
func QuotaGroupFolders(name string) []string {
	return []string{"/sys/fs/cgroup/cpu/" + name, "/sys/fs/cgroup/" + name}
}

// JoinControlGroup puts a process into a control group.
func JoinControlGroup(folder string, pid int) error {
	return os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// An Allowance holds the CPUs and the CPU quota that the kernel grants a process.
type Allowance struct {
	// CPUs lists the CPUs on which at least one thread of the process may run.
	CPUs []int `json:"cpus"`
	// QuotaCPUs is the quota of the process's control groups, in CPUs. 0 means no quota.
	QuotaCPUs float64 `json:"quota_cpus,omitempty"`
	// TracedBy is the id of a process that traces this process, such as a debugger. 0 means none.
	TracedBy int `json:"traced_by,omitempty"`
	// Nice is the priority of the process: above 0, other processes come first.
	Nice int `json:"nice,omitempty"`
}

// Plus returns the allowance of two processes on two machines together. CPUs is empty, because both
// machines number their CPUs from 0. The quota is 0 unless both machines have one.
func (a Allowance) Plus(other Allowance) Allowance {
	sum := Allowance{TracedBy: cmp.Or(a.TracedBy, other.TracedBy), Nice: max(a.Nice, other.Nice)}
	if a.QuotaCPUs > 0 && other.QuotaCPUs > 0 {
		sum.QuotaCPUs = a.QuotaCPUs + other.QuotaCPUs
	}
	return sum
}

// ReadAllowance reads the allowance of a process. It takes 10 µs, and 10 µs per thread.
func ReadAllowance(pid int) (Allowance, error) {
	allowance, err := readAllowance(os.DirFS("/"), strconv.Itoa(pid))
	allowance.Nice = niceOf(pid)
	return allowance, err
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
			continue // the thread has ended since ReadDir
		}
		cpus, err := ParseCPUList(valueOfLabel(status, "Cpus_allowed_list"))
		if err != nil {
			return Allowance{}, fmt.Errorf("read the CPUs of process %s: %w", process, err)
		}
		allowance.CPUs = append(allowance.CPUs, cpus...)
		if tracer, err := strconv.Atoi(valueOfLabel(status, "TracerPid")); err == nil && tracer > 0 {
			allowance.TracedBy = tracer
		}
	}
	slices.Sort(allowance.CPUs)
	allowance.CPUs = slices.Compact(allowance.CPUs)
	return allowance, nil
}
