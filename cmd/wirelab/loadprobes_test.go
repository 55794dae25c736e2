package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// serveCalls is a program for tests: each answer takes a number of calls of getppid, which nothing else in it
// makes. They are made by the process that listens, by a child that runs before the load ("child"), or by
// a child per request ("children"). It ends with its standard input.
func serveCalls() {
	calls, err := strconv.Atoi(os.Args[1])
	call := func() {
		for range calls {
			_ = syscall.Getppid()
		}
	}
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
	by := os.Args[2]
	if by == "request" {
		call()
		os.Exit(0)
	}
	var listener net.Listener
	if by == "worker" {
		var unread error
		listener, unread = net.FileListener(os.NewFile(3, "listener")) // the first of ExtraFiles
		err = errors.Join(err, unread)
	} else {
		var unheard error
		listener, unheard = net.Listen("tcp", "127.0.0.1:0")
		if err = errors.Join(err, unheard); err == nil {
			fmt.Println(listener.Addr())
		}
	}
	if err != nil {
		panic(err)
	}
	switch by {
	case "child":
		file, err := listener.(*net.TCPListener).File()
		worker := exec.Command(os.Args[0], os.Args[1], "worker")
		worker.ExtraFiles = []*os.File{file}
		_, unpiped := worker.StdinPipe() // the worker ends with this process
		panic(errors.Join(err, unpiped, worker.Run()))
	case "children":
		call = func() {
			worker := exec.Command(os.Args[0], os.Args[1], "request")
			_, unpiped := worker.StdinPipe()
			if err := errors.Join(unpiped, worker.Run()); err != nil {
				panic(err)
			}
		}
	}
	panic(http.Serve(listener, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { call() }))) //nolint:gosec // for this test alone
}

// startCalls starts the service of serveCalls, and returns its address.
func startCalls(t *testing.T, calls int, by string) string {
	t.Helper()
	serving := exec.Command("calling", strconv.Itoa(calls), by)
	input, err := serving.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := serving.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serving.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = input.Close(); _ = serving.Wait() })
	address, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(address)
}

// TestProbesCountTheCallsOfAService: a load of -n requests finds exactly the system calls that a service makes
// for each, whichever of its processes makes them.
func TestProbesCountTheCallsOfAService(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it loads four services")
	}
	for _, one := range []struct {
		by              string
		calls, requests int
	}{{"itself", 0, 400}, {"itself", 10, 400}, {"child", 10, 400}, {"children", 10, 40}} {
		t.Run(fmt.Sprint(one.by, one.calls), func(t *testing.T) {
			run := t.TempDir() + "/run"
			load := exec.CommandContext(t.Context(), "wirelab", "load", "http://"+startCalls(t, one.calls, one.by)+"/",
				"-c", "4", "-n", strconv.Itoa(one.requests), "--probe", "syscalls", "-o", run)
			said, err := load.CombinedOutput()
			if exit, is := errors.AsType[*exec.ExitError](err); err != nil && (!is || exit.ExitCode() != exitInvalid) { // a noisy machine spoils no counts
				t.Fatalf("%v:\n%s", err, said)
			}
			if want := fmt.Sprintf("1 more run   %d more requests, in no other figure", one.requests); !strings.Contains(string(said), want) {
				t.Errorf("the answer lacks %q:\n%s", want, said)
			}
			text, err := exec.CommandContext(t.Context(), "wirelab", "explain", "--json", run).Output()
			var e explained
			if err := errors.Join(err, json.Unmarshal(text, &e)); err != nil {
				t.Fatal(err)
			}
			if pass := e.Of.Passes[0]; !strings.HasPrefix(pass.Method, "BPF") || len(pass.Missing) > 0 && one.by == "children" {
				t.Skip("this machine does not count all system calls: ", pass.Method, pass.Missing)
			}
			found := 0.0
			for _, call := range e.Of.Server.Syscalls {
				if call.Name == "getppid" {
					found = call.PerCall
				}
			}
			if found != float64(one.calls) {
				t.Errorf("found %v calls of getppid per request, want %d: %+v", found, one.calls, e.Of.Server.Syscalls)
			}
			if len(e.Of.Client.Syscalls) == 0 {
				t.Error("the client has no system calls")
			}
		})
	}
}

// TestProbesOfAFleetCountTheClients: two agents that allow it count the system calls of their clients, which send
// each request by one; the service is on no agent, which is said.
func TestProbesOfAFleetCountTheClients(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it starts a fleet")
	}
	const requests = 400
	t.Setenv("WIRELAB_FLEETS", t.TempDir())
	wirelab := func(args ...string) string {
		said, err := exec.CommandContext(t.Context(), "wirelab", args...).CombinedOutput()
		if exit, is := errors.AsType[*exec.ExitError](err); err != nil && (!is || exit.ExitCode() != exitInvalid) { // a noisy machine spoils no counts
			t.Fatalf("%v: %v:\n%s", args, err, said)
		}
		return string(said)
	}
	name := "probed" + strconv.Itoa(os.Getpid()) // the agents' folder is the machine's
	wirelab("fleet", "up", "--detach", "--name", name, "--listen", "127.0.0.1:0", "--agent", "role=client*2", "--allow-probes", "syscalls")
	defer wirelab("fleet", "down")
	address, run := startCalls(t, 0, "itself"), t.TempDir()+"/run"
	wirelab("load", "http://"+address+"/", "--fleet", name, "-c", "4", "-n", strconv.Itoa(requests), "--probe", "syscalls", "-o", run)
	var e explained
	text, err := exec.CommandContext(t.Context(), "wirelab", "explain", "--json", run).Output()
	if err := errors.Join(err, json.Unmarshal(text, &e)); err != nil {
		t.Fatal(err)
	}
	pass := e.Of.Passes[0]
	if want := "agents observe only the workers that they start, and not what listens on " + address; !strings.Contains(strings.Join(pass.Missing, "\n"), want) {
		t.Errorf("missing is %q, want %q", pass.Missing, want)
	}
	if !strings.HasPrefix(pass.Method, "BPF") {
		t.Skip("this machine does not count all system calls: ", pass.Method)
	}
	found := 0.0
	for _, call := range e.Of.Client.Syscalls {
		if call.Name == "sendto" {
			found = call.PerCall
		}
	}
	if found != 1 {
		t.Errorf("the clients have %v calls of sendto per request, want 1: %+v", found, e.Of.Client.Syscalls)
	}
	if len(e.Of.Server.Syscalls) > 0 {
		t.Errorf("the service has system calls: %+v", e.Of.Server.Syscalls)
	}
}
