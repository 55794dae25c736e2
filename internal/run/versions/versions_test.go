package versions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"wirelab.dev/internal/machine/host"
)

// TestMain makes the test program a keeper, or a program that starts a version and then hangs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case KeeperCommand:
			if err := Keep(context.Background(), os.Stdin, os.Stdout); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case "hang":
			if _, err := Start(keeper, Version{Name: "base", Command: os.Args[2], Log: os.Args[3]}, host.StartOptions{}); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Println("started")
			select {}
		}
	}
	os.Exit(m.Run())
}

var keeper = []string{os.Args[0], KeeperCommand}

// family is a command whose processes leave their parents, their session, or ignore SIGTERM. Each
// writes its number into a file of $PIDS before the file complete appears.
const family = `trap "" TERM
	(setsid sh -c 'echo $$ >$PIDS/session; exec sleep 1000' &)
	sh -c 'trap "" TERM; echo $$ >$PIDS/deaf; while :; do sleep 1000; done' &
	while ! test -s $PIDS/session || ! test -s $PIDS/deaf; do :; done
	echo $$ >$PIDS/leader; touch $PIDS/complete
	wait`

// awaitFile waits until a file exists.
func awaitFile(t *testing.T, name string) {
	t.Helper()
	for {
		if _, err := os.Stat(name); err == nil {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("no ", name)
		}
		runtime.Gosched()
	}
}

// readPIDs returns the processes of the command family.
func readPIDs(t *testing.T, folder string) (pids []int) {
	t.Helper()
	awaitFile(t, filepath.Join(folder, "complete"))
	for _, name := range []string{"session", "deaf", "leader"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// lives reports whether a process exists and has not ended.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat[bytes.LastIndexByte(stat, ')'):]), ") Z ")
}

func needsLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux gives orphans to the keeper; this system is ", runtime.GOOS)
	}
}

func TestStopEndsAllDescendants(t *testing.T) {
	needsLinux(t)
	folder := t.TempDir()
	t.Setenv("PIDS", folder)
	s, err := Start(keeper, Version{Name: "base", Command: family, Log: filepath.Join(folder, "log")}, host.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	pids := readPIDs(t, folder)
	for _, pid := range pids {
		if !lives(pid) {
			t.Fatalf("process %d does not live before the end", pid)
		}
	}
	s.Stop()
	for _, pid := range pids {
		if lives(pid) {
			t.Errorf("process %d lives on", pid)
		}
	}
}

// A kill of wirelab itself leaves no process behind.
func TestAKillEndsAllDescendants(t *testing.T) {
	needsLinux(t)
	folder := t.TempDir()
	hanging := exec.Command(os.Args[0], "hang", family, filepath.Join(folder, "log"))
	hanging.Env = append(os.Environ(), "PIDS="+folder)
	if err := hanging.Start(); err != nil {
		t.Fatal(err)
	}
	pids := readPIDs(t, folder)
	if err := hanging.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = hanging.Wait() // killed
	for _, pid := range pids {
		for lives(pid) {
			if t.Context().Err() != nil {
				t.Fatalf("process %d lives on", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func TestAwait(t *testing.T) {
	needsLinux(t)
	log := func() string { return filepath.Join(t.TempDir(), "log") }
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	silent := "127.0.0.1:1"
	for name, test := range map[string]struct {
		command, address, want string
		limit                  time.Duration
	}{
		"listens":     {"exec sleep 1000", listener.Addr().String(), "", time.Hour},
		"dies":        {"echo one; echo two >&2; exit 3", silent, "the head (echo one; echo two >&2; exit 3) did not stay: exit status 3; its last lines:\n  one\n  two", time.Hour},
		"dies mutely": {"exit 3", silent, "did not stay: exit status 3; it printed nothing", time.Hour},
		"is deaf":     {"exec sleep 1000", silent, "does not listen at 127.0.0.1:1: too late: let it listen on $PORT; it printed nothing", time.Millisecond},
		"knows PORT":  {"echo $PORT; exit 1", silent, "its last lines:\n  4711", time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Start(keeper, Version{Name: "head", Command: test.command, Port: 4711, Log: log()}, host.StartOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Stop()
			ctx, cancel := context.WithTimeoutCause(t.Context(), test.limit, errors.New("too late"))
			defer cancel()
			err = s.Await(ctx, test.address)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("Await: %v, want %q", err, test.want)
			}
		})
	}
}

func TestStartErrors(t *testing.T) {
	needsLinux(t)
	for name, v := range map[string]Version{
		"no such folder":       {Name: "base", Command: "exit", Folder: "/nowhere", Log: filepath.Join(t.TempDir(), "log")},
		"no place for the log": {Name: "base", Command: "exit", Log: "/nowhere/log"},
	} {
		if s, err := Start(keeper, v, host.StartOptions{}); err == nil || !strings.Contains(err.Error(), "start base, exit: ") || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}

func TestExpand(t *testing.T) {
	v := Version{Port: 8081}
	for text, want := range map[string]string{
		"http://127.0.0.1:$PORT/a?b=${PORT}": "http://127.0.0.1:8081/a?b=8081",
		"http://127.0.0.1:80/":               "http://127.0.0.1:80/",
	} {
		if got := v.Expand(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// The end of a long log is kept, not all of it.
func TestKeepLogs(t *testing.T) {
	p := Pair{}
	defer p.Stop()
	if err := p.Prepare(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	for _, v := range p.Versions {
		if err := os.WriteFile(v.Log, append(bytes.Repeat([]byte("-"), 2*keptLogBytes), v.Name...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	into := t.TempDir()
	if err := p.KeepLogs(into); err != nil {
		t.Fatal(err)
	}
	for _, v := range p.Versions {
		kept, err := os.ReadFile(filepath.Join(into, v.Name+".log"))
		if err != nil || len(kept) != keptLogBytes || !strings.HasSuffix(string(kept), v.Name) {
			t.Errorf("%s: %d bytes, %v", v.Name, len(kept), err)
		}
	}
	if p.Versions[0].Port == p.Versions[1].Port {
		t.Error("both versions have the same port")
	}
}

// repository makes a git repository with two commits, and a change that is not committed, and makes it
// the working directory.
func repository(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed: ", err)
	}
	t.Chdir(t.TempDir())
	script := `git init -q -b main . && git config user.email a@example.org && git config user.name a
		mkdir sub && echo one >sub/file && git add . && git commit -qm one && git tag first
		echo two >sub/file && git add . && git commit -qm two
		echo dirty >sub/file; echo new >untracked`
	if output, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

func TestCheckout(t *testing.T) {
	repository(t)
	before := said(t, "git status --porcelain; git stash list; git rev-parse HEAD")
	t.Chdir("sub")
	p := Pair{FromGit: true, Build: "cat file >built", Notes: io.Discard}
	defer p.Stop()
	if err := p.Prepare(t.Context(), "first", "HEAD"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"one\n", "two\n"} {
		if built, err := os.ReadFile(filepath.Join(p.Versions[i].Folder, "built")); err != nil || string(built) != want {
			t.Errorf("%s: built %q, %v, want %q", p.Versions[i].Name, built, err, want)
		}
	}
	p.Stop()
	t.Chdir("..")
	if after := said(t, "git status --porcelain; git stash list; git rev-parse HEAD"); after != before {
		t.Errorf("the repository is changed: %s, want %s", after, before)
	}
	if left := said(t, "git worktree list"); strings.Count(left, "\n") != 1 {
		t.Errorf("worktrees are left:\n%s", left)
	}
}

func said(t *testing.T, script string) string {
	t.Helper()
	output, err := exec.Command("sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", script, err, output)
	}
	return string(output)
}

func TestCheckoutErrors(t *testing.T) {
	repository(t)
	for name, test := range map[string]struct {
		revisions [2]string
		build     string
		folder    string
		want      []string
	}{
		"no such revision": {[2]string{"first", "nope"}, "", ".", []string{"--git nope: git: ", "name a branch, a tag or a commit; fetch it first"}},
		"an option":        {[2]string{"--all", "HEAD"}, "", ".", []string{"--git --all: git: "}},
		"build fails":      {[2]string{"first", "HEAD"}, "echo cannot build >&2; exit 7", ".", []string{"--build of commit ", ": exit status 7: it must succeed in a fresh worktree", "its last lines:\n  cannot build"}},
		"no repository":    {[2]string{"first", "HEAD"}, "", t.TempDir(), []string{"--git: git: ", "not a git repository", "run wirelab in the repository of the service"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(test.folder)
			p := Pair{FromGit: true, Build: test.build, Notes: io.Discard}
			err := p.Prepare(t.Context(), test.revisions[0], test.revisions[1])
			p.Stop()
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
	if left := said(t, "git worktree list"); strings.Count(left, "\n") != 1 {
		t.Errorf("worktrees are left:\n%s", left)
	}
}

// A build that is interrupted ends with all that it has started.
func TestAnInterruptedBuild(t *testing.T) {
	repository(t)
	needsLinux(t)
	folder := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { // ends with the file, or with the test
		for name := filepath.Join(folder, "pid"); ctx.Err() == nil; runtime.Gosched() {
			if _, err := os.Stat(name); err == nil {
				break
			}
		}
		cancel(errors.New("interrupted"))
	}()
	p := Pair{FromGit: true, Build: fmt.Sprintf("sleep 1000 & echo $! >%[1]s/p; mv %[1]s/p %[1]s/pid; wait", folder), Notes: io.Discard}
	defer p.Stop()
	err := p.Prepare(ctx, "first", "HEAD")
	if err == nil || err.Error() != "interrupted" {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for lives(pid) && syscall.Kill(pid, 0) == nil {
		if t.Context().Err() != nil {
			t.Fatalf("process %d lives on", pid)
		}
		time.Sleep(time.Millisecond)
	}
}
