package symbol

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// openCompiled opens the list of the functions that a process has compiled. The file is in the process's own root,
// under its number in its own container. Another user could write any file in /tmp, so the file must be a plain
// one that belongs to the user of the process.
func openCompiled(pid int) (*os.File, error) {
	folder := "/proc/" + strconv.Itoa(pid)
	status, err := os.ReadFile(folder + "/status")
	if err != nil {
		return nil, err
	}
	inner, user := strconv.Itoa(pid), uint64(0)
	for lines := bufio.NewScanner(bytes.NewReader(status)); lines.Scan(); {
		label, rest, _ := strings.Cut(lines.Text(), ":")
		fields := strings.Fields(rest)
		switch {
		case len(fields) == 0:
		case label == "NSpid":
			inner = fields[len(fields)-1]
		case label == "Uid" && len(fields) > 1: // real, effective, saved and of the file system
			if user, err = strconv.ParseUint(fields[1], 10, 32); err != nil {
				return nil, err
			}
		}
	}
	name := fmt.Sprintf("%s/root/tmp/perf-%s.map", folder, inner)
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		if owner, known := info.Sys().(*syscall.Stat_t); !known || !info.Mode().IsRegular() || uint64(owner.Uid) != user {
			err = fmt.Errorf("%s: %w: not a plain file of user %d", name, fs.ErrPermission, user)
		}
	}
	if err != nil {
		_ = file.Close() // the error is more important
		return nil, err
	}
	return file, nil
}
