package system

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		t.Helper()
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		return file
	}
	one, two := open(), open() // flock belongs to the open file, so one process can test it
	if err := Lock(one); err != nil {
		t.Fatal(err)
	}
	if err := Lock(two); !errors.Is(err, ErrLocked) {
		t.Errorf("the second lock: found %v, want ErrLocked", err)
	}
	if err := LockShared(two); !errors.Is(err, ErrLocked) {
		t.Errorf("a shared lock beside a full one: found %v, want ErrLocked", err)
	}
	if _, err := two.WriteString("text"); err != nil {
		t.Errorf("write a locked file: %v", err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if err := LockShared(two); err != nil {
		t.Errorf("after the first was closed: %v", err)
	}
	if err := LockShared(open()); err != nil {
		t.Errorf("a second shared lock: %v", err)
	}
}

func TestEndProcesses(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]func(int) error{"KillGroup": KillGroup, "Terminate": Terminate, "Kill": Kill} {
		command := exec.Command(program, "-test.run=^TestSleeper$") //nolint:gosec,noctx // this test, which is ended
		command.Env = append(os.Environ(), "WIRELAB_SLEEP=1")
		OwnGroup(command)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		if err := end(command.Process.Pid); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := command.Wait(); err == nil {
			t.Errorf("%s: the process ended by itself", name)
		}
		if name != "KillGroup" {
			if err := end(command.Process.Pid); err != nil {
				t.Errorf("%s of a process that has ended: %v", name, err)
			}
		}
	}
}

// TestSleeper is the process that TestEndProcesses ends.
func TestSleeper(t *testing.T) {
	if os.Getenv("WIRELAB_SLEEP") == "" {
		return // it is only for TestEndProcesses
	}
	time.Sleep(time.Minute)
}

func TestWaitForInput(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = reader.Close(), writer.Close() }()
	if ready, err := WaitForInput(reader, time.Millisecond); ready || err != nil {
		t.Errorf("an empty pipe: found %v, %v; want false", ready, err)
	}
	if _, err := writer.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	if ready, err := WaitForInput(reader, time.Minute); !ready || err != nil {
		t.Errorf("a pipe with a byte: found %v, %v; want true", ready, err)
	}
}
