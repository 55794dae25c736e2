package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/run/worker/body"
	"wirelab.dev/internal/run/worker/conform"
)

// patience bounds what must happen at last. Only a failing test comes near it.
const patience = time.Minute

// The test's own program plays every part that a test needs, by its first
// argument.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	if lie := lies[os.Args[1]]; lie != nil {
		lieAbout(lie)
		return
	}
	switch os.Args[1] {
	case "worker":
		if err := body.Main(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "dies":
		fmt.Fprintln(os.Stderr, "a last word")
		os.Exit(7)
	case "hangs":
		fmt.Fprintln(os.Stderr, "thinking about it")
		time.Sleep(time.Hour)
	case "reports":
		fmt.Fprintln(os.Stderr, "wirelab: the disk is full")
		time.Sleep(10 * time.Millisecond) // mostly enough for it to arrive first
		fmt.Println(`{"event":"error","error":{"message":"the disk is full"}}`)
	case "prints-garbage":
		fmt.Println("Listening on port 80!")
		time.Sleep(time.Hour)
	case "has-children":
		child := exec.Command("sleep", "3600")
		if err := child.Start(); err != nil {
			panic(err)
		}
		fmt.Println("child", child.Process.Pid) // which is no event
		time.Sleep(time.Hour)
	case "starts-a-worker": // a wirelab that is about to be killed
		p, err := worker.Start(worker.Launch{Name: "child", Command: []string{os.Args[0], "hangs"}, Spec: worker.Spec{}})
		if err != nil {
			panic(err)
		}
		fmt.Println(p.PID())
		time.Sleep(time.Hour)
	default:
		os.Exit(m.Run())
	}
}

func self(t *testing.T, part string) []string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{program, part}
}

func holdAgainstContract(t *testing.T, p conform.Peer) {
	for _, check := range conform.Checks(p) {
		t.Run(check.Name, func(t *testing.T) {
			if check.Skip != "" {
				t.Skip(check.Skip)
			}
			check.Run(t)
		})
	}
}

func TestOwnWorkersKeepTheContract(t *testing.T) {
	able, err := conform.AskCapabilities(t.Context(), self(t, "worker"))
	if err != nil {
		t.Fatal(err)
	}
	for _, stack := range []string{"tcp", "h1", "h2", "h3", "grpc", "fake", "file"} {
		t.Run(stack+" by what it can do", func(t *testing.T) {
			t.Parallel() // nothing is measured
			holdAgainstContract(t, conform.Peer{
				Command: self(t, "worker"), Reference: self(t, "worker"), Stack: stack, Server: true, Client: true, Able: able,
			})
		})
	}
	for _, stack := range []string{"tcp", "tcp:buffers=pooled", "rest", "grpc"} {
		t.Run(stack, func(t *testing.T) {
			t.Parallel() // nothing is measured
			holdAgainstContract(t, conform.Peer{
				Command: self(t, "worker"), Reference: self(t, "worker"), Stack: stack, Server: true, Client: true,
			})
		})
	}
}

// A worker that fails in any way is an error that names it and quotes its last
// words.
func TestWorkersThatFail(t *testing.T) {
	for part, wants := range map[string][]string{
		"dies":           {"server of the test", "exit status 7", "a last word"},
		"prints-garbage": {"server of the test", "not an event of the contract", "Listening on port 80!"},
	} {
		t.Run(part, func(t *testing.T) {
			err := failureOf(t, part, patience)
			for _, want := range wants {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
		})
	}
}

// Workers print the error that they report, too; a person reads it once.
func TestAReportedErrorIsSaidOnce(t *testing.T) {
	if err := failureOf(t, "reports", patience); err == nil || strings.Count(err.Error(), "the disk is full") != 1 {
		t.Errorf("%v: want the error once", err)
	}
}

// A worker that says nothing for too long is killed. On a busy machine it may
// not come to its last words in that time: then it gets more.
func TestAWorkerThatHangs(t *testing.T) {
	for silence := 300 * time.Millisecond; ; silence *= 2 {
		err := failureOf(t, "hangs", silence)
		if want := fmt.Sprintf("server of the test: the worker printed nothing for %v", silence); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("the error does not say %q: %v", want, err)
		}
		if strings.Contains(err.Error(), "thinking about it") {
			return
		}
		if silence > patience {
			t.Fatalf("the error does not quote its last words: %v", err)
		}
	}
}

// failureOf starts a worker that plays a part, and returns how it failed.
func failureOf(t *testing.T, part string, silence time.Duration) error {
	t.Helper()
	p, err := worker.Start(worker.Launch{
		Name: "server of the test", Command: self(t, part), Spec: worker.Spec{}, Silence: silence,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	_, err = p.Ready(ctx)
	p.Kill()
	wantGone(t, p.PID())
	return err
}

func TestKillReachesWhatTheWorkerStarted(t *testing.T) {
	p, err := worker.Start(worker.Launch{
		Name: "parent", Command: self(t, "has-children"), Spec: worker.Spec{},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	_, err = p.Ready(t.Context())
	if err == nil {
		t.Fatal("what it printed was taken for an event")
	}
	_, after, _ := strings.Cut(err.Error(), "child ")
	child, bad := strconv.Atoi(strings.TrimRightFunc(after, func(r rune) bool { return r < '0' || r > '9' }))
	if bad != nil {
		t.Fatalf("want what it printed in the error, got %v", err)
	}
	wantGone(t, child)
}

// Whoever starts workers may be killed at any time; nothing may stay behind.
func TestNoWorkerOutlivesItsParent(t *testing.T) {
	command := self(t, "starts-a-worker")
	parent := exec.Command(command[0], command[1:]...)
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var line [16]byte
	n, err := output.Read(line[:])
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(string(bytes.TrimSpace(line[:n])))
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	wantGone(t, child)
}

func wantGone(t *testing.T, pid int) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(5 * time.Millisecond) {
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) || zombie(pid) {
			return
		}
	}
	t.Errorf("process %d still runs", pid)
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// zombie is a process that has ended and whose new parent has not looked yet.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return bytes.HasPrefix(rest, []byte("Z"))
}

func TestBadSpecs(t *testing.T) {
	for name, line := range map[string]string{
		"nothing":          "",
		"no JSON":          "serve, please\n",
		"another contract": `{"contract":99,"role":"server","address":"127.0.0.1:0"}` + "\n",
		"no client part":   `{"contract":1,"role":"client","stack":"tcp","address":"127.0.0.1:1"}` + "\n",
		"no clients":       `{"contract":1,"role":"client","stack":"tcp","address":"127.0.0.1:1","client":{}}` + "\n",
		"no address":       `{"contract":1,"role":"server","stack":"tcp"}` + "\n",
	} {
		var output bytes.Buffer
		if err := body.Main(t.Context(), strings.NewReader(line), &output); err == nil {
			t.Errorf("%s: no error", name)
		}
		if !strings.Contains(output.String(), `"event":"error"`) {
			t.Errorf("%s: no error event: %s", name, output.String())
		}
	}
}

// A worker that makes a first call needs its part of the spec, and an address.
func TestSpecsOfFirstCalls(t *testing.T) {
	for spec, want := range map[string]string{
		`"address":"127.0.0.1:1","visit":{"seed":1}`: "",
		`"address":"127.0.0.1:1"`:                    "the part visit is missing",
		`"visit":{"seed":1}`:                         "the address is missing",
	} {
		_, err := worker.ParseSpec([]byte(`{"contract":1,"role":"visit","stack":"service:wire=h1",` + spec + `}`))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}

func FuzzParseSpec(f *testing.F) {
	f.Add([]byte(`{"contract":1,"role":"server","stack":"tcp","workload":{"name":"echo"},"address":"127.0.0.1:0"}`))
	f.Add([]byte(`{"contract":1,"role":"client","stack":"tcp","address":"127.0.0.1:1","client":{"clients":2,"group":{"first":3,"of":5},"interval_ns":100000000}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if s, err := worker.ParseSpec(line); err == nil && (s.Contract != worker.Contract || s.Address == "") {
			t.Errorf("accepted %+v", s)
		}
	})
}
