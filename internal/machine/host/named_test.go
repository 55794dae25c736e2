package host

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

func TestFindNamed(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()

	proc := os.DirFS("/proc")
	const nobody = -1 // a wirelab that none of these processes started
	for text, want := range map[string]int{
		":" + port:                               os.Getpid(),
		"pid:" + strconv.Itoa(child.Process.Pid): child.Process.Pid,
		"pid:" + strconv.Itoa(os.Getpid()):       os.Getpid(),
	} {
		if found, err := findNamed(proc, nobody, text); err != nil || !slices.Equal(found, []int{want}) {
			t.Errorf("%s: found %v, %v; want %d", text, found, err, want)
		}
	}
	for text, want := range map[string]string{
		"postgres":      `found "postgres": want the number of a process or of a port`,
		":pid:7":        "want the number",
		"0":             "want the number",
		"pid:999999999": "there is no process 999999999",
		":1":            "found no process that listens on port 1: start it first, or give its PID",
		"999999999":     "there is no process 999999999, and found no process that listens",
		":" + port:      "started wirelab, so its children are not only your service",
	} {
		if found, err := FindNamed(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: found %v, %v; want an error with %q", text, found, err, want)
		}
	}
	if _, err := findNamed(machine(nil), nobody, "7"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("without /proc: %v, want ErrUnsupported", err)
	}
}

// A number that is a process and another process's port is not guessed at.
func TestFindNamedIsNotAmbiguous(t *testing.T) {
	t.Parallel()
	proc := machine(map[string]string{
		"80/stat":  stat(80, "cron", 1, 0, 0, 1),
		"812/stat": stat(812, "nginx", 1, 0, 0, 1),
		"net/tcp":  "sl local rem st tx tr tm retr uid timeout inode\n0: 00000000:0050 00000000:0000 0A 0:0 0:0 0 0 0 4711\n",
	})
	proc["812/fd/3"] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("socket:[4711]")}
	for text, want := range map[string]string{"80": "80 is a process (cron), and nginx listens on port 80: write pid:80 or :80", ":80": "", "pid:80": ""} {
		_, err := findNamed(proc, 1, text)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestFindNamedFindsAControlGroup in either version of control groups, with the groups below it.
func TestFindNamedFindsAControlGroup(t *testing.T) {
	t.Parallel()
	proc := machine(map[string]string{
		"7/stat": stat(7, "postgres", 1, 0, 0, 1), "7/cgroup": "0::/system.slice/pg\n",
		"8/stat": stat(8, "worker", 1, 0, 0, 1), "8/cgroup": "4:memory:/other\n3:cpu,cpuacct:/system.slice/pg/workers\n",
		"9/stat": stat(9, "pgadmin", 1, 0, 0, 1), "9/cgroup": "0::/system.slice/pg-admin\n",
		"10/stat": stat(10, "ended", 1, 0, 0, 1),
	})
	for text, want := range map[string][]int{"cgroup:/system.slice/pg": {7, 8}, "cgroup:/system.slice/pg/": {7, 8}, "cgroup:/": {7, 8, 9}} {
		if found, err := findNamed(proc, -1, text); err != nil || !slices.Equal(found, want) {
			t.Errorf("%s: found %v, %v; want %v", text, found, err, want)
		}
	}
	for text, want := range map[string]string{
		"cgroup:pg":      "found cgroup:pg: want the path of a control group",
		"cgroup:/nobody": "found no process in the control group /nobody: start it first",
	} {
		if found, err := findNamed(proc, -1, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: found %v, %v; want an error with %q", text, found, err, want)
		}
	}
	if _, err := findNamed(proc, 8, "cgroup:/system.slice/pg"); err == nil || !strings.Contains(err.Error(), "started wirelab") {
		t.Errorf("the group of wirelab itself: %v", err)
	}
}
