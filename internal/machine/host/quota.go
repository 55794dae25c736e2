package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// quotaPeriod is the kernel's default.
const quotaPeriod = 100 * time.Millisecond

// NewQuotaGroup makes a control group that grants a number of CPUs, and returns its folder.
// Removing the folder ends the group. Without such groups the error wraps ErrUnsupported.
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
			return "", errors.Join(fmt.Errorf("set a CPU quota: %w (%w): it takes the cpu controller", err, ErrUnsupported), os.Remove(folder))
		}
		return folder, nil
	}
	return "", fmt.Errorf("no control group grants CPU time here: %w", ErrUnsupported)
}

// QuotaGroupFolders returns the folders in which NewQuotaGroup makes a control group, one for each
// version of control groups.
func QuotaGroupFolders(name string) []string {
	return []string{"/sys/fs/cgroup/cpu/" + name, "/sys/fs/cgroup/" + name}
}

// JoinGroup puts a process into a control group.
func JoinGroup(folder string, pid int) error {
	return os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}
