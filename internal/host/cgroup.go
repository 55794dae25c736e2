package host

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// readQuota returns the CPU time that the control groups of this process
// grant, in CPUs, and 0 for no limit. Version 1, version 2 and the hybrid of
// both are read, and every ancestor: the tightest wins.
func readQuota(from *facts) float64 {
	quota := math.Inf(1)
	for line := range strings.Lines(from.text("proc/self/cgroup")) {
		// hierarchy:controllers:path, cgroups(7)
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		controllers, group := fields[1], fields[2]
		switch {
		case controllers == "":
			quota = min(quota, tightest(from.root, "sys/fs/cgroup", group, quotaV2))
			quota = min(quota, tightest(from.root, "sys/fs/cgroup/unified", group, quotaV2))
		case strings.Contains(","+controllers+",", ",cpu,"):
			quota = min(quota, tightest(from.root, "sys/fs/cgroup/cpu", group, quotaV1))
			quota = min(quota, tightest(from.root, "sys/fs/cgroup/"+controllers, group, quotaV1))
		}
	}
	if math.IsInf(quota, 1) {
		return 0
	}
	return quota
}

// tightest walks from a group up to the mount. Inside a container the path may
// be the host's and not exist below the mount; what is absent sets no limit.
func tightest(root fs.FS, mount, group string, read func(fs.FS, string) float64) float64 {
	quota := math.Inf(1)
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		quota = min(quota, read(root, path.Join(mount, group)))
		if group == "/" {
			return quota
		}
	}
}

// quotaV2 reads "max 100000" or "150000 100000" (microseconds a period).
func quotaV2(root fs.FS, folder string) float64 { return quotaOf(root, folder, "cpu.max") }

// quotaV1 reads the same two figures from two files; -1 means no limit.
func quotaV1(root fs.FS, folder string) float64 {
	return quotaOf(root, folder, "cpu.cfs_quota_us", "cpu.cfs_period_us")
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
