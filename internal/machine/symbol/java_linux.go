package symbol

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// attachPatience is the time that a Java machine has to answer.
const attachPatience = 3 * time.Second

// listJavaFunctions makes a Java machine write the list of the functions that it has compiled, as `jcmd PID
// Compiler.perfmap` does (Java 17 or later). remove removes the list.
func (p *Process) listJavaFunctions(inner string) (remove func(), err error) {
	isJava := func(m mapping) bool { return filepath.Base(m.path) == "libjvm.so" }
	if !slices.ContainsFunc(p.mappings, isJava) {
		return nil, errors.ErrUnsupported
	}
	temporary := fmt.Sprintf("/proc/%d/root/tmp/", p.pid)
	socket := temporary + ".java_pid" + inner
	if err := p.openJavaSocket(socket, temporary+".attach_pid"+inner); err != nil {
		return nil, err
	}
	conn, err := net.DialTimeout("unix", socket, attachPatience)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // the answer was read
	if err := conn.SetDeadline(time.Now().Add(attachPatience)); err != nil {
		return nil, err
	}
	// The version of the protocol, the command, and three arguments.
	if _, err := conn.Write([]byte(strings.Join([]string{"1", "jcmd", "Compiler.perfmap", "", "", ""}, "\x00"))); err != nil {
		return nil, err
	}
	const mostSaid = 4 << 10
	said, err := io.ReadAll(io.LimitReader(conn, mostSaid))
	if err != nil || !strings.HasPrefix(string(said), "0\n") {
		return nil, fmt.Errorf("the Java machine writes no list of its functions: %q: %w", said, errors.Join(err, errors.ErrUnsupported))
	}
	return func() { _ = os.Remove(temporary + "perf-" + inner + ".map") }, nil // another may have removed it
}

// catches reports whether the process has a handler for a signal (proc_pid_status(5)).
func (p *Process) catches(signal syscall.Signal) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(status), "\nSigCgt:")
	caught, _, _ := strings.Cut(rest, "\n")
	handlers, err := strconv.ParseUint(strings.TrimSpace(caught), 16, 64)
	return err == nil && handlers>>(signal-1)&1 == 1
}

// openJavaSocket makes a Java machine open the socket at which it takes commands. It does so when it gets SIGQUIT
// and finds a certain file.
func (p *Process) openJavaSocket(socket, request string) error {
	if _, err := os.Stat(socket); err == nil {
		return nil
	}
	if !p.catches(syscall.SIGQUIT) { // with -Xrs, or if it has not started yet, the signal would end it
		return fmt.Errorf("the Java machine takes no commands: %w", errors.ErrUnsupported)
	}
	file, err := os.OpenFile(request, os.O_CREATE|os.O_EXCL|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(request) }()
	if err := errors.Join(file.Close(), syscall.Kill(p.pid, syscall.SIGQUIT)); err != nil {
		return err
	}
	for end := time.Now().Add(attachPatience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the Java machine opens no socket for commands: %w", os.ErrDeadlineExceeded)
}
