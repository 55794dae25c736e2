package host

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// cpuGroups lists the folders of a process's control groups that can limit its CPU time,
// its own and their ancestors. Version 1, version 2 and the hybrid of both are read.
// process is a process number, or "self".
//
// Inside a container the path may be the host's and not exist below the mount. The walk
// then ends at the mount's root, which is the container's own group.
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

// ancestors walks from a group up to the mount's root and returns the folders that hold
// the file. Of two mounts the first that has such a folder counts: the second may be
// another name of the same.
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

// readQuota returns the CPU time that the control groups of a process grant, in CPUs, and
// 0 for no limit. The tightest of its groups and their ancestors wins.
func readQuota(root fs.FS, process string) float64 {
	quota := math.Inf(1)
	for _, folder := range cpuGroups(root, process) {
		// "max 100000" or "150000 100000": microseconds a period. In version 1
		// the same in two files; -1 means no limit.
		quota = min(quota, quotaOf(root, folder, "cpu.max"), quotaOf(root, folder, "cpu.cfs_quota_us", "cpu.cfs_period_us"))
	}
	if math.IsInf(quota, 1) {
		return 0
	}
	return quota
}

// quotaOf divides the granted time by the period. What is absent, or no positive number,
// sets no limit.
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

// Throttle reads for how long the control groups of a process stopped it because its
// quota was used up.
type Throttle struct {
	files []*os.File
	text  [1 << 10]byte // cpu.stat has ten lines
}

// Throttled counts how often and for how long control groups were stopped since they were
// made. A group that runs on several CPUs is stopped on each of them: the times add up.
type Throttled struct{ TimeNS, Periods int64 }

// OpenThrottle opens the groups of a process. Their files stay open as long as the
// Throttle is in use, because that makes a reading three times as fast.
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

// Read returns the sum over the groups: 0 without a quota. It costs 2 µs a group and
// allocates nothing.
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
		var into *int64
		unit := int64(1)
		switch string(name) {
		case "nr_throttled":
			into = &t.Periods
		case "throttled_time":
			into = &t.TimeNS
		case "throttled_usec":
			into, unit = &t.TimeNS, 1000
		default:
			continue
		}
		value := int64(0)
		for _, digit := range figure {
			if digit < '0' || digit > '9' {
				break
			}
			value = 10*value + int64(digit-'0')
		}
		*into = value * unit
	}
	return t
}
