package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"wirelab.dev/internal/machine/link"
)

// An ending ends a run with links early.
type ending struct {
	name string
	// end ends it, at an instant that is random from the start, when it may have no
	// network yet, or from the first network on.
	end         func(t *testing.T, s *someone, c *exec.Cmd)
	fromNetwork bool
}

var endings = []ending{
	{name: "killed from the start", end: kill},
	{name: "killed", end: kill, fromNetwork: true},
	{name: "interrupted", end: interrupt, fromNetwork: true},
	{name: "its workers killed, then interrupted", fromNetwork: true, end: func(t *testing.T, s *someone, c *exec.Cmd) {
		t.Helper()
		s.killWorkers(t)
		interrupt(t, s, c)
	}},
}

func kill(t *testing.T, _ *someone, c *exec.Cmd) {
	t.Helper()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
}

func interrupt(t *testing.T, _ *someone, c *exec.Cmd) {
	t.Helper()
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); c.ProcessState.ExitCode() != exitInterrupted {
		t.Errorf("%v, want exit code %d", err, exitInterrupted)
	}
}

// killWorkers kills each worker of a moment.
func (s *someone) killWorkers(t *testing.T) {
	t.Helper()
	for begin, killed := time.Now(), 0; killed == 0; time.Sleep(time.Millisecond) {
		for _, process := range s.processes() {
			// Gone since: no worker any more.
			command, _ := os.ReadFile(filepath.Join(process, "cmdline"))
			pid, err := strconv.Atoi(filepath.Base(process))
			if err == nil && bytes.Contains(command, []byte("\x00worker\x00")) && syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
			}
		}
		if time.Since(begin) > patience {
			t.Fatalf("it has no worker after %v", patience)
		}
	}
}

// Whoever runs it, and whenever it ends: no process, no namespace, no interface.
func TestNothingIsLeftOfARunWithLinks(t *testing.T) {
	if testing.Short() {
		t.Skip("it kills runs after some seconds (-short)")
	}
	users := map[string]*someone{"ordinary user": ordinary(t)}
	if os.Geteuid() == 0 && link.CheckSupport() == nil {
		users["root"] = &someone{}
		users["root"].settle(t)
	}
	for name, user := range users {
		t.Run(name, func(t *testing.T) {
			user.needsNetworks(t)
			for _, e := range endings {
				t.Run(e.name, func(t *testing.T) {
					for range 2 {
						user.endARun(t, e)
					}
				})
			}
		})
	}
}

func (s *someone) endARun(t *testing.T, e ending) {
	t.Helper()
	c := s.command(s.program, "compare", "--stack", "tcp,grpc", "--size", "64", "-c", "1", "-n", "5", "--warm-up", "0s", "--repeat", "100", "--link", "delay=2ms,rate=10Mbit/s", "-o", filepath.Join(s.folder, "out"+strconv.Itoa(rand.Int())))
	c.Stdout, c.Stderr = io.Discard, io.Discard
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	home, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	var seen []string // namespaces of its processes
	after := rand.N(time.Second)
	waits := e.fromNetwork
	for begin := time.Now(); waits || time.Since(begin) < after; time.Sleep(time.Millisecond) {
		for _, process := range s.processes() {
			space, err := os.Readlink(process + "/ns/net")
			if err == nil && space != home && !slices.Contains(seen, space) {
				seen = append(seen, space)
			}
		}
		if waits && len(seen) > 0 {
			begin, waits = time.Now(), false
		}
		if waits && time.Since(begin) > patience {
			t.Fatalf("it has no network after %v", patience)
		}
	}
	e.end(t, s, c)
	left := s.left(seen)
	for begin := time.Now(); len(left) > 0 && time.Since(begin) < patience; left = s.left(seen) {
		time.Sleep(20 * time.Millisecond)
	}
	for _, what := range left {
		t.Errorf("left behind: %s", what)
	}
	for _, process := range s.processes() {
		if pid, err := strconv.Atoi(filepath.Base(process)); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// processes are the folders in /proc of those that run the user's copy.
func (s *someone) processes() []string {
	all, _ := filepath.Glob("/proc/[0-9]*/exe") // the pattern is good
	var found []string
	for _, exe := range all {
		if path, err := os.Readlink(exe); err == nil && path == s.program {
			found = append(found, filepath.Dir(exe))
		}
	}
	return found
}

// left returns what still exists of a run: processes, interfaces, and whatever holds one of
// its namespaces.
func (s *someone) left(namespaces []string) []string {
	found := s.processes()
	interfaces, _ := net.Interfaces() // none: nothing is found
	for _, i := range interfaces {
		if strings.HasPrefix(i.Name, "client") || strings.HasPrefix(i.Name, "server") {
			found = append(found, i.Name)
		}
	}
	holders, _ := filepath.Glob("/proc/[0-9]*/ns/net")
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, holder := range append(holders, open...) {
		if name, err := os.Readlink(holder); err == nil && slices.Contains(namespaces, name) {
			found = append(found, holder+" is "+name)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		found = append(found, err.Error())
	}
	for _, name := range namespaces {
		if bytes.Contains(mounts, []byte(name)) {
			found = append(found, name+" is mounted")
		}
	}
	return found
}
