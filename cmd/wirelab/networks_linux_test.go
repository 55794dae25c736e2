package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/wire/sockopt"
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
	for _, name := range sockopt.Available() {
		stacks = append(stacks, "--stack", "tcp:cc="+name)
	}
	c := user.command(user.program, append([]string{"compare", "--size", "64", "-c", "1", "-n", "20", "--warm-up", "0s", "--repeat", "1", "--link", "delay=5ms", "-o", out}, stacks...)...)
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
