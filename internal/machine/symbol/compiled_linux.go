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

// openCompiled opens the list of the functions that a process has compiled. If a Java machine has written none, it
// is asked for it. closeList removes what it has written for this.
func (p *Process) openCompiled() (list *os.File, closeList func(), err error) {
	inner, user, err := p.innerNumber()
	if err != nil {
		return nil, nil, err
	}
	list, err = p.openList(inner, user)
	if err == nil {
		return list, func() { _ = list.Close() }, nil // it was only read
	}
	remove, asked := p.listJavaFunctions(inner)
	if asked != nil {
		return nil, nil, err
	}
	list, err = p.openList(inner, user)
	return list, func() { _ = list.Close(); remove() }, err
}

// innerNumber returns the number of the process in its own container, and its user.
func (p *Process) innerNumber() (inner string, user uint64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return "", 0, err
	}
	inner = strconv.Itoa(p.pid)
	for lines := bufio.NewScanner(bytes.NewReader(status)); lines.Scan(); {
		label, rest, _ := strings.Cut(lines.Text(), ":")
		fields := strings.Fields(rest)
		switch {
		case len(fields) == 0:
		case label == "NSpid":
			inner = fields[len(fields)-1]
		case label == "Uid" && len(fields) > 1: // real, effective, saved and of the file system
			if user, err = strconv.ParseUint(fields[1], 10, 32); err != nil {
				return "", 0, err
			}
		}
	}
	return inner, user, nil
}

// openList opens a list of functions. The file is in the process's own root. Another user could write any file in
// /tmp, so the file must be a plain one that belongs to the user of the process.
func (p *Process) openList(inner string, user uint64) (*os.File, error) {
	name := fmt.Sprintf("/proc/%d/root/tmp/perf-%s.map", p.pid, inner)
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
