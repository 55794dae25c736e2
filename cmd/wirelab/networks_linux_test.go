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

	"wirelab.dev/internal/congestion"
	"wirelab.dev/internal/link"
	"wirelab.dev/internal/record"
)

// someone is a user, with a copy of wirelab in a folder of their own.
type someone struct {
	folder  string
	program string
	as      *syscall.Credential // nil: who runs the test
}

// ordinary is a user without rights: nobody, where root runs the test.
func ordinary(t *testing.T) *someone {
	t.Helper()
	s := &someone{}
	if os.Geteuid() == 0 {
		const nobody = 65534
		s.as = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	s.settle(t)
	return s
}

func (s *someone) settle(t *testing.T) {
	t.Helper()
	original, err := exec.LookPath("wirelab")
	if err != nil {
		t.Fatal(err)
	}
	s.folder = t.TempDir()
	if err := os.Chmod(filepath.Dir(s.folder), 0o755); err != nil { // others may not enter it
		t.Fatal(err)
	}
	s.program = filepath.Join(s.folder, "wirelab")
	content, err := os.ReadFile(original)
	if err == nil {
		err = os.WriteFile(s.program, content, 0o755)
	}
	if err == nil {
		err = os.Chmod(s.folder, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (s *someone) command(program string, args ...string) *exec.Cmd {
	c := exec.Command(program, args...)
	c.Dir = s.folder
	c.Env = append(os.Environ(), "HOME="+s.folder, "TMPDIR="+s.folder)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return c
}

// needsNetworks skips the test where the user can have none.
func (s *someone) needsNetworks(t *testing.T) {
	t.Helper()
	said, err := s.command(s.program, "doctor").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for line := range strings.SplitSeq(string(said), "\n") {
		if strings.HasPrefix(line, "missing  networks") {
			t.Skip(line)
		}
	}
}

func TestOrdinaryUsersHaveLinks(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs trials for some seconds (-short)")
	}
	user := ordinary(t)
	user.needsNetworks(t)
	out := filepath.Join(user.folder, "out")
	// On the machine's loopback an ordinary user may have fewer of them.
	var stacks []string
	for _, name := range congestion.Available() {
		stacks = append(stacks, "--stack", "tcp:cc="+name)
	}
	c := user.command(user.program, append([]string{"compare", "--size", "64", "-c", "1", "-n", "20", "--warm-up", "0s", "--repeat", "1", "--patience", "0", "--link", "delay=5ms", "-o", out}, stacks...)...)
	said, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != exitInvalid) { // the machine may be busy
		t.Fatalf("%v: %s", err, said)
	}
	run, err := record.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	variants := map[string]bool{}
	for r, err := range run.Records() {
		if err != nil {
			t.Fatal(err)
		}
		variants[r.Cell.Variant] = true
		if n := r.Negotiated; n == nil || "tcp:cc="+n.ClientCongestion != r.Cell.Variant || n.ServerCongestion != n.ClientCongestion {
			t.Errorf("%s had %+v", r.Cell.Variant, r.Negotiated)
		}
		const roundTrip = 10 * time.Millisecond
		if r.Link == nil || r.Link.Up.Sent == 0 || r.Service.Count == 0 || time.Duration(r.Service.Min) < roundTrip {
			t.Errorf("the calls did not cross a link of 5 ms: %+v", r.Link)
		}
	}
	if len(variants) != len(stacks)/2 {
		t.Errorf("%v were measured, want all of %v: %s", variants, stacks, said)
	}
	status, err := os.Stat(filepath.Join(out, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	if owner := status.Sys().(*syscall.Stat_t).Uid; user.as != nil && owner != user.as.Uid {
		t.Errorf("the report belongs to user %d", owner)
	}
}

// The truth that is put in: a machine that gives ordinary users no user namespace.
func TestARefusalNamesTheSysctl(t *testing.T) {
	for _, tool := range []string{"unshare", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v: it comes with util-linux", err)
		}
	}
	user := ordinary(t)
	const script = `echo 0 >/proc/sys/user/max_user_namespaces || exit 77; exec setpriv --bounding-set -all --inh-caps -all "$@"`
	c := user.command("unshare", "--user", "--map-root-user", "sh", "-c", script, "sh", user.program, "compare", "--stack", "tcp", "--link", "lan")
	said, err := c.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, said)
	}
	if !bytes.Contains(said, []byte("user.max_user_namespaces is 0")) {
		if exit.ExitCode() == 77 || bytes.Contains(said, []byte("unshare failed")) {
			t.Skipf("no user namespace to forbid them in: %s", said)
		}
		t.Errorf("exit code %d: %s", exit.ExitCode(), said)
	}
	if exit.ExitCode() != exitFailed || bytes.Count(said, []byte("\n")) != 1 {
		t.Errorf("exit code %d, want %d and one line: %s", exit.ExitCode(), exitFailed, said)
	}
}

// Whoever runs it, and whenever it is killed: no process, no namespace, no interface.
func TestNothingIsLeftOfAKilledRunWithLinks(t *testing.T) {
	if testing.Short() {
		t.Skip("it kills runs after some seconds (-short)")
	}
	users := map[string]*someone{"ordinary user": ordinary(t)}
	if os.Geteuid() == 0 && link.Check() == nil {
		users["root"] = &someone{}
		users["root"].settle(t)
	}
	for name, user := range users {
		t.Run(name, func(t *testing.T) {
			user.needsNetworks(t)
			for range 6 {
				user.killARun(t)
			}
		})
	}
}

func (s *someone) killARun(t *testing.T) {
	t.Helper()
	c := s.command(s.program, "compare", "--stack", "tcp,grpc", "--size", "64", "-c", "1", "-n", "5", "--warm-up", "0s", "--repeat", "100", "--patience", "0", "--link", "delay=2ms,rate=10Mbit/s", "-o", filepath.Join(s.folder, "out"+strconv.Itoa(rand.Int())))
	c.Stdout, c.Stderr = io.Discard, io.Discard
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var seen []string // namespaces of its processes
	home, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	// At a random instant after the first trial has its network.
	for begin, after := time.Now(), time.Duration(0); after == 0 || time.Since(begin) < after; time.Sleep(time.Millisecond) {
		for _, process := range s.processes() {
			space, err := os.Readlink(process + "/ns/net")
			if err == nil && space != home && !slices.Contains(seen, space) {
				seen = append(seen, space)
			}
		}
		if after == 0 && len(seen) > 0 {
			begin, after = time.Now(), rand.N(time.Second)
		}
		if after == 0 && time.Since(begin) > patience {
			t.Fatalf("it has no network after %v", patience)
		}
	}
	_ = c.Process.Kill()
	_ = c.Wait() // it was killed
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

// left is what there still is of a run: processes, interfaces, and whatever holds one of
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
