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
// port. :N is always a port, and pid:N always a process.
func FindNamed(text string) ([]int, error) {
	return findNamed(Proc(), os.Getpid(), text)
}

func findNamed(proc fs.FS, self int, text string) ([]int, error) {
	digits, isPort := strings.CutPrefix(text, ":")
	digits, isPID := strings.CutPrefix(digits, "pid:")
	number, err := strconv.Atoi(digits)
	if err != nil || number < 1 || isPort && isPID {
		return nil, fmt.Errorf("found %q: want the number of a process or of a port, as in 4711 or :5432", text)
	}
	processes := readProcessTable(proc)
	if len(processes) == 0 {
		return nil, fmt.Errorf("found no process in /proc: %w: wirelab sees the processes of other programs only on Linux", ErrUnsupported)
	}
	var found []int
	if !isPID {
		for _, network := range []string{"tcp", "udp"} {
			for _, pid := range findListeners(proc, network, ":"+digits) {
				found = lists.AppendNew(found, pid)
			}
		}
	}
	process, lives := processes[number]
	switch {
	case isPort || !lives:
	case len(found) > 0 && !slices.Contains(found, number):
		return nil, fmt.Errorf("%d is a process (%s), and %s listens on port %d: write pid:%d or :%d", number, process.name, processes[found[0]].name, number, number, number)
	default:
		found = []int{number}
	}
	if len(found) == 0 {
		return nil, errors.New(describeNothing(number, isPort, isPID))
	}
	for _, pid := range found {
		if processes.descendsFrom(self, pid) {
			return nil, fmt.Errorf("process %d (%s) started wirelab, so its children are not only your service: name the service's own process", pid, processes[pid].name)
		}
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
