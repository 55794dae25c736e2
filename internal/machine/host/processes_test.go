package host

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// stat is a line of /proc/PID/stat with the times in ticks of 10 ms.
func stat(pid int, name string, parent, own, children, started int) string {
	return fmt.Sprintf("%d (%s) R %d 1 1 0 -1 4194560 100 0 0 0 %d 0 %d 0 20 0 1 0 %d 1000 100",
		pid, name, parent, own, children, started)
}

func processes(stats ...string) ProcessTable {
	files := map[string]string{"uptime": "1 1", "self/stat": "no process of that number"}
	for _, line := range stats {
		var pid int
		_, _ = fmt.Sscan(line, &pid)
		files[fmt.Sprintf("%d/stat", pid)] = line
	}
	return readProcessTable(machine(files))
}

func TestCensusNamesWhoTookTheTime(t *testing.T) {
	before := processes(
		stat(1, "init", 0, 500, 900, 1),
		stat(10, "wirelab", 1, 100, 50, 200),
		stat(20, "stress-ng", 1, 300, 0, 300),
		stat(30, "make", 1, 5, 40, 310),
		stat(31, "cc1", 30, 70, 0, 320), // ends, and had 0.7 s by now
		stat(40, "old", 1, 900, 0, 330), // ends too; its number is used again
	)
	after := processes(
		stat(1, "init", 0, 500, 1900, 1), // waited for "old", which had 9 s before, and took 1 s since
		stat(10, "wirelab", 1, 160, 450, 200),
		stat(11, "worker", 10, 800, 0, 400),
		stat(20, "stress-ng", 1, 360, 0, 300),
		stat(30, "make", 1, 6, 40+70+30+25, 310), // cc1 took 0.3 s more, and others 0.25
		stat(40, "new (a) name", 1, 12, 0, 410),
		stat(50, "idle", 1, 0, 0, 50),
	)
	want := []CPUConsumer{
		{PID: 1, Name: "init", Time: time.Second},
		{PID: 20, Name: "stress-ng", Time: 600 * time.Millisecond},
		{PID: 30, Name: "make", Time: 560 * time.Millisecond},
		{PID: 40, Name: "new (a) name", Time: 120 * time.Millisecond},
	}
	if got := after.Since(before, 10); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := before.Since(before, 10); len(got) != 0 {
		t.Errorf("in no time: %+v", got)
	}
	if got := ProcessTable(nil).Since(nil, 10); got != nil {
		t.Errorf("without procfs: %+v", got)
	}
}

// A real process that burns is named, and this one and its children are not.
func TestCensusOfThisMachine(t *testing.T) {
	before := ReadProcessTable()
	if _, known := before[os.Getpid()]; !known {
		t.Skip("no /proc/PID/stat on this machine, as on other systems than Linux")
	}
	burner := exec.Command("sh", "-c", "while :; do :; done")
	if err := burner.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = burner.Process.Kill(); _ = burner.Wait() }()
	for { // until the kernel has counted a tick for it, however long that takes
		now := ReadProcessTable()
		named := slices.ContainsFunc(now.Since(before, -1), func(c CPUConsumer) bool { return c.PID == burner.Process.Pid })
		if named {
			own := now.Since(before, os.Getpid())
			if slices.ContainsFunc(own, func(c CPUConsumer) bool { return c.PID == burner.Process.Pid || c.PID == os.Getpid() }) {
				t.Errorf("own processes are neighbours: %+v", own)
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func FuzzParseProcess(f *testing.F) {
	f.Add(stat(7, "a) (b", 1, 2, 3, 4))
	f.Add("7 () R")
	f.Fuzz(func(t *testing.T, line string) {
		if p, ok := parseProcess(line); ok && p.started == "" {
			t.Errorf("%q is taken for %+v", line, p)
		}
	})
}
