package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"wirelab.dev/internal/base/lists"
)

// FindNamed returns the processes that a user names by a number: a process, or those that listen on a
// port. :N is always a port, and pid:N always a process. cgroup:/PATH names the processes of a control group
// and of the groups below it.
func FindNamed(text string) ([]int, error) {
	return findNamed(Proc(), os.Getpid(), text)
}

func findNamed(proc fs.FS, self int, text string) (found []int, err error) {
	processes := readProcessTable(proc)
	if group, isGroup := strings.CutPrefix(text, "cgroup:"); isGroup {
		found, err = processes.findInGroup(proc, group)
	} else {
		found, err = processes.findNumbered(proc, text)
	}
	if err != nil {
		return nil, err
	}
	for _, pid := range found {
		if processes.descendsFrom(self, pid) {
			return nil, fmt.Errorf("process %d (%s) started wirelab, so its children are not only your service: name the service's own process", pid, processes[pid].name)
		}
	}
	return found, nil
}

// findInGroup returns the processes of a control group and of the groups below it (cgroups(7)).
func (c ProcessTable) findInGroup(proc fs.FS, group string) (found []int, _ error) {
	if !strings.HasPrefix(group, "/") {
		return nil, fmt.Errorf("found cgroup:%s: want the path of a control group, as in cgroup:/system.slice/postgresql.service", group)
	}
	below := strings.TrimSuffix(group, "/") + "/"
	for pid := range c {
		text, _ := fs.ReadFile(proc, strconv.Itoa(pid)+"/cgroup") // the process may have ended
		for line := range strings.Lines(string(text)) {
			// The path follows the number and the controllers, as in 0::/system.slice.
			if fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(fields) == 3 && strings.HasPrefix(fields[2]+"/", below) {
				found = lists.AppendNew(found, pid)
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("found no process in the control group %s: start it first, or take the path from /proc/PID/cgroup of one of its processes", group)
	}
	slices.Sort(found)
	return found, nil
}

func (c ProcessTable) findNumbered(proc fs.FS, text string) (found []int, _ error) {
	digits, isPort := strings.CutPrefix(text, ":")
	digits, isPID := strings.CutPrefix(digits, "pid:")
	number, err := strconv.Atoi(digits)
	if err != nil || number < 1 || isPort && isPID {
		return nil, fmt.Errorf("found %q: want the number of a process or of a port, as in 4711 or :5432, or cgroup:/PATH", text)
	}
	if len(c) == 0 {
		return nil, fmt.Errorf("found no process in /proc: %w: wirelab sees the processes of other programs only on Linux", ErrUnsupported)
	}
	if !isPID {
		for _, network := range []string{"tcp", "udp"} {
			for _, pid := range findListeners(proc, network, ":"+digits) {
				found = lists.AppendNew(found, pid)
			}
		}
	}
	process, lives := c[number]
	switch {
	case isPort || !lives:
	case len(found) > 0 && !slices.Contains(found, number):
		return nil, fmt.Errorf("%d is a process (%s), and %s listens on port %d: write pid:%d or :%d", number, process.name, c[found[0]].name, number, number, number)
	default:
		found = []int{number}
	}
	if len(found) == 0 {
		return nil, errors.New(describeNothing(number, isPort, isPID))
	}
	return found, nil
}

// describeNothing says that a number names no process.
func describeNothing(number int, isPort, isPID bool) string {
	const hidden = "start it first, or give its PID if it runs as another user or in a container"
	switch {
	case isPID:
		return fmt.Sprintf("there is no process %d: give the PID of a running process, or the port on which it listens", number)
	case isPort:
		return fmt.Sprintf("found no process that listens on port %d: %s", number, hidden)
	}
	return fmt.Sprintf("there is no process %d, and found no process that listens on port %d: %s", number, number, hidden)
}
