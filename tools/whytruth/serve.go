package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A service is a program in the folder services. Two of it run: the first without, the second with its fault.
type service struct {
	Program string   // the language
	Job     string   // what a request does
	Load    []string // flags of wirelab load
	Beside  string   // the job of another process: the back end of both, or a neighbour on their CPUs
	Apart   bool     // one load after the other, and the neighbour runs during the second alone
	Nice    int      // of the second
	Quota   int      // of the second: percent of a CPU, by a control group
}

// programs has the program that starts, or builds, each language's service.
var programs = map[string]string{"go": "go", "python": "python3", "node": "node", "java": "java", "cpp": "g++"}

// A neighbour is a program that computes.
const neighbour = "neighbour"

// missing says why this machine cannot run a plant; it is empty if the machine can.
func (p *plantedCause) missing() string {
	s := p.Service
	if s == nil {
		return ""
	}
	for _, program := range []string{programs[s.Program], "go", "taskset", "nice"} {
		if _, err := exec.LookPath(program); err != nil {
			return program + " is not installed"
		}
	}
	if s.Quota != 0 {
		leave, err := limit(os.Getpid(), 0)
		if err != nil {
			return "no control group for CPU time: " + err.Error()
		}
		leave()
	}
	return ""
}

// A process is a running service.
type process struct {
	address string
	leave   func() // removes its control group
	command *exec.Cmd
}

func (p *process) stop() {
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
	_ = p.command.Wait()                                                  // it was killed
	_ = os.Remove(fmt.Sprintf("/tmp/perf-%d.map", p.command.Process.Pid)) // Node's list of functions
	if p.leave != nil {
		p.leave()
	}
}

// start starts a service on the upper half of the CPUs, and waits until it listens. The load has the other half.
func (t *truth) start(ctx context.Context, at string, s *service, backend string, fault bool) (*process, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	command, err := t.program(ctx, s.Program)
	if err != nil {
		return nil, err
	}
	switch s.Program {
	case neighbour:
	case "go":
		command = append(command, "-address", address, "-job", s.Job, "-backend", backend, "-fault="+strconv.FormatBool(fault))
	default:
		planted := "0"
		if fault {
			planted = "1"
		}
		command = append(command, address, s.Job, planted)
	}
	if fault && s.Nice != 0 {
		command = append([]string{"nice", "-n", strconv.Itoa(s.Nice)}, command...)
	}
	cpus := fmt.Sprintf("%d-%d", runtime.NumCPU()/2, runtime.NumCPU()-1)
	command = append([]string{"taskset", "-c", cpus}, command...)
	p := &process{address: address, command: exec.Command(command[0], command[1:]...)} //nolint:gosec,noctx // the services of this folder; stop ends them
	p.command.Dir = at
	p.command.Stderr = os.Stderr
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	if fault && s.Quota != 0 {
		if p.leave, err = limit(p.command.Process.Pid, s.Quota); err != nil {
			p.stop()
			return nil, err
		}
	}
	if s.Program != neighbour {
		if err := listens(ctx, address); err != nil {
			p.stop()
			return nil, err
		}
	}
	return p, nil
}

// program returns the command that runs the service of a language. It builds what must be built, once.
func (t *truth) program(ctx context.Context, language string) ([]string, error) {
	source, err := filepath.Abs(filepath.Join(filepath.Dir(t.file), "services"))
	if err != nil {
		return nil, err
	}
	at := filepath.Join(t.folder, "service-"+language)
	var build *exec.Cmd
	switch language {
	case neighbour:
		return []string{"sh", "-c", "while :; do :; done"}, nil
	case "python":
		return []string{"python3", filepath.Join(source, "service.py")}, nil
	case "node":
		return []string{"node", "--perf-basic-prof", filepath.Join(source, "service.js")}, nil
	case "java":
		return []string{"java", "-XX:+PreserveFramePointer", filepath.Join(source, "Service.java")}, nil
	case "cpp":
		build = exec.CommandContext(ctx, "g++", "-O2", "-g", "-pthread", "-o", at, filepath.Join(source, "cpp", "service.cpp")) //nolint:gosec // a service of this folder
	default:
		build = exec.CommandContext(ctx, "go", "build", "-o", at, ".") //nolint:gosec // a service of this folder
		build.Dir = source
	}
	if _, err := os.Stat(at); err == nil {
		return []string{at}, nil
	}
	if said, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(build.Args, " "), err, said)
	}
	return []string{at}, nil
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String(), nil
}

// listens waits until a service accepts connections. Java compiles its service first.
func listens(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the service does not listen at %s: %w", address, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// limit moves a process into a control group of its own that has a percentage of a CPU; 0 only makes the group, and
// moves nothing. The caller removes the group after the end of the process.
func limit(pid, percent int) (remove func(), err error) {
	const period = 100_000 // µs
	group := "/sys/fs/cgroup/cpu/whytruth"
	quota, text := "cpu.cfs_quota_us", strconv.Itoa(percent*period/100)
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		group = "/sys/fs/cgroup/whytruth"
		quota, text = "cpu.max", fmt.Sprintf("%s %d", text, period)
	}
	if err := os.Mkdir(group, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	remove = func() { _ = os.Remove(group) } // an empty group that stays limits nothing
	if percent != 0 {
		err = errors.Join(
			os.WriteFile(filepath.Join(group, quota), []byte(text), 0o600),
			os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600),
		)
	} else {
		_, err = os.Stat(filepath.Join(group, quota))
	}
	if err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// runService loads both versions of a service, and returns the runs to explain: one, or two if they are apart.
func (t *truth) runService(ctx context.Context, planted *plantedCause, at string) (runs []string, err error) {
	s := planted.Service
	runs = []string{filepath.Join(at, "results")}
	if s.Apart {
		runs = []string{filepath.Join(at, "before"), filepath.Join(at, "after")}
	}
	if _, err := os.Stat(filepath.Join(runs[len(runs)-1], "manifest.json")); err == nil {
		return runs, nil
	}
	if err := os.MkdirAll(at, 0o750); err != nil {
		return nil, err
	}
	var running []*process
	defer func() {
		for _, p := range running {
			p.stop()
		}
	}()
	var failed error
	start := func(s *service, backend string, fault bool) string {
		if failed != nil {
			return ""
		}
		var p *process
		if p, failed = t.start(ctx, at, s, backend, fault); failed != nil {
			return ""
		}
		running = append(running, p)
		return p.address
	}
	flags := append([]string{"-z", "1s", "--warm-up", "1s", "--probe", t.probes}, s.Load...)
	load := func(target string, more ...string) {
		if failed == nil {
			_, failed = output(ctx, slices.Concat([]string{t.wirelab, "load", "http://" + target + "/"}, more, flags))
		}
	}
	computes := &service{Program: neighbour}
	var backend string
	switch {
	case s.Beside == neighbour && !s.Apart:
		start(computes, "", false)
	case s.Beside == "backend":
		backend = start(&service{Program: "go", Job: s.Beside}, "", false)
		_, port, _ := net.SplitHostPort(backend)
		flags = append(flags, "--also", ":"+port)
	}
	a := start(s, backend, false)
	if s.Apart {
		load(a, "--repeat", "3", "-o", runs[0])
		start(computes, "", false)
		load(a, "--repeat", "3", "-o", runs[1])
	} else {
		b := start(s, backend, true)
		load(a, "--against", "http://"+b+"/", "--budget", "25s", "-o", runs[0])
	}
	return runs, failed
}
