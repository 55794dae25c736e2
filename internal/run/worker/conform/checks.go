package conform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/run/worker"
)

// A Check is one of the checks that test a worker against the contract.
type Check struct {
	Name string
	Run  func(T)
	// Skip says why the check does not apply. It is empty if the check applies.
	Skip string
}

// RunOutsideTests runs the check without package testing, and returns the errors that it found.
func (c Check) RunOutsideTests(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	t := &checkRecorder{ctx: ctx}
	ended := make(chan struct{})
	go func() { // Fatal ends only this goroutine
		defer close(ended)
		c.Run(t)
	}()
	<-ended
	cancel()
	for _, clean := range slices.Backward(t.cleanups) {
		clean()
	}
	return errors.Join(t.found...)
}

// checkRecorder is a T that records the errors of a check. Only one goroutine may use it.
type checkRecorder struct {
	ctx      context.Context
	found    []error
	cleanups []func()
}

func (t *checkRecorder) Helper()                  {}
func (t *checkRecorder) Context() context.Context { return t.ctx }
func (t *checkRecorder) Cleanup(clean func())     { t.cleanups = append(t.cleanups, clean) }
func (t *checkRecorder) Errorf(format string, args ...any) {
	t.found = append(t.found, fmt.Errorf(format, args...))
}
func (t *checkRecorder) Error(args ...any) { t.Errorf("%s", fmt.Sprint(args...)) }

func (t *checkRecorder) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

func (t *checkRecorder) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprint(args...)) }

// Checks returns the checks for a worker that plays the peer's roles.
func Checks(p Peer) []Check {
	all := []Check{
		{Name: "refuses another contract", Run: p.expectRefusal("contract", func(s *worker.Spec) { s.Contract = worker.Contract + 1 })},
		{Name: "refuses an unknown role", Run: p.expectRefusal("role", func(s *worker.Spec) { s.Role = "bystander" })},
		{Name: "refuses an unknown stack", Run: p.expectRefusal("no-such-stack", func(s *worker.Spec) { s.Stack = "no-such-stack" })},
		{Name: "refuses an unknown workload", Run: p.expectRefusal("no-such-workload", func(s *worker.Spec) { s.Workload.Name = "no-such-workload" })},
	}
	if p.Able != nil {
		all = append(all, Check{Name: "says what it can do", Run: p.checkCapabilities})
	}
	if p.Server {
		all = append(
			all,
			Check{Name: "server/life", Run: p.checkServerLife},
			Check{Name: "server/answers", Run: p.checkServerAnswers},
			Check{Name: "server/address taken", Run: p.checkTakenAddress},
			Check{Name: "server/hostile clients", Run: p.checkHostileClients},
		)
		for _, workload := range p.otherWorkloads() {
			server, client := p.newSpec(worker.ServerRole, anyPortAddress), p.referenceSpec(p.newSpec(worker.ClientRole, ""))
			all = append(all, Check{Name: "server/answers " + workload, Skip: p.lack(workload), Run: p.expectCallBetween(workload, workerEnd{p.Command, server}, workerEnd{p.Reference, client})})
		}
	}
	if p.Client {
		all = append(all, p.clientChecks()...)
	}
	for i := range all {
		if strings.HasPrefix(all[i].Name, "server/") || strings.HasPrefix(all[i].Name, "client/") {
			all[i].Skip = cmp.Or(all[i].Skip, p.lack(defaultWorkload)) // these checks call the default workload
		}
	}
	return all
}

// lack returns why calls of a workload are not checked, or "" if the stack carries the workload.
func (p Peer) lack(workload string) string {
	name, _, _ := strings.Cut(p.Stack, ":")
	if p.Able == nil || !slices.Contains(p.Able.Lacks[name], workload) {
		return ""
	}
	return fmt.Sprintf("the worker reports that %s does not carry the workload %s", name, workload)
}

func (p Peer) clientChecks() []Check {
	all := []Check{
		{Name: "client/requests", Run: p.expectRequests(callersPerClient*requestsPerCaller, worker.Load{Model: "closed", RequestsPerClient: requestsPerCaller})},
		{Name: "client/uneven requests", Run: p.expectRequests(callersPerClient*requestsPerCaller+2, worker.Load{Model: "closed", RequestsPerClient: requestsPerCaller, ExtraRequests: 2})},
		{Name: "client/duration", Run: p.expectRequests(0, worker.Load{Model: "closed", DurationNS: int64(300 * time.Millisecond)})},
		{Name: "client/warm-up", Run: p.expectRequests(0, worker.Load{
			Model: "closed", DurationNS: int64(300 * time.Millisecond),
			WarmUpAtLeastNS: int64(50 * time.Millisecond), WarmUpAtMostNS: int64(100 * time.Millisecond),
		})},
		{Name: "client/nobody listens", Run: p.checkNoListener},
		{Name: "client/input ends", Run: p.checkClientInputEnd},
		{Name: "client/wrong answers", Run: p.checkWrongAnswers},
		{Name: "client/times", Run: p.checkTimes},
		{Name: "client/slow calls", Run: p.checkSlowCalls},
	}
	if p.Able == nil || slices.Contains(p.Able.Loads, "open") {
		all = append(all, Check{Name: "client/open loop", Run: p.expectRequests(200, worker.Load{
			Model: "open", RatePerSecond: 500, Arrivals: "constant", DurationNS: int64(400 * time.Millisecond),
		})})
	} else {
		all = append(all, Check{Name: "client/refuses other loads", Run: p.checkLoadRefusal})
	}
	if p.hasControl(worker.EndControl) {
		all = append(all, Check{Name: "client/ends early", Run: p.checkEarlyEnd})
	}
	if p.hasControl(worker.PauseControl) {
		all = append(all, Check{Name: "client/pauses", Run: p.checkPause})
	}
	if p.hasControl(worker.SlicesControl) {
		all = append(all, Check{Name: "client/slices", Run: p.checkSlices})
	}
	if p.hasControl(worker.GoControl) && p.hasControl(worker.OpenControl) {
		all = append(
			all,
			Check{Name: "client/group", Run: p.expectGroupLoad(worker.Load{Model: "closed", RequestsPerClient: requestsPerCaller, ExtraRequests: 4})},
			Check{Name: "client/group without a warm-up", Run: p.checkGroupWithoutWarmUp},
		)
		if slices.Contains(p.Able.Loads, "open") {
			all = append(all, Check{Name: "client/group's schedule", Run: p.expectGroupLoad(worker.Load{Model: "open", RatePerSecond: 500, Arrivals: "constant", DurationNS: 4e8})})
		}
	}
	for _, workload := range p.otherWorkloads() {
		server, client := p.referenceSpec(p.newSpec(worker.ServerRole, anyPortAddress)), p.newSpec(worker.ClientRole, "")
		all = append(all, Check{Name: "client/calls " + workload, Skip: p.lack(workload), Run: p.expectCallBetween(workload, workerEnd{p.Reference, server}, workerEnd{p.Command, client})})
	}
	if p.Able != nil {
		for _, mode := range p.Able.Connections {
			all = append(all, Check{Name: "client/connections " + mode, Run: p.expectConnections(mode)})
		}
	}
	return all
}

func (p Peer) hasControl(control worker.Control) bool {
	return p.Able != nil && slices.Contains(p.Able.Controls, control)
}

func (p Peer) expectRefusal(word string, spoil func(*worker.Spec)) func(T) {
	return func(t T) {
		role := worker.ServerRole
		if !p.Server {
			role = worker.ClientRole
		}
		spec := p.newSpec(role, anyPortAddress)
		spoil(&spec)
		process := p.startWorker(t, p.Command, spec)
		_, err := process.Ready(p.waitContext(t))
		expectErrorEvent(t, err, word)
		if err := process.Stop(); err == nil {
			t.Error("the worker got a wrong spec, but ended without an error: want a failed exit")
		}
	}
}

func (p Peer) checkServerLife(t T) {
	server, ready := p.startPeerServer(t)
	_, port, err := net.SplitHostPort(ready.Address)
	if err != nil || port == "0" {
		t.Fatalf("the server's ready event has the address %q: want HOST:PORT with the real port", ready.Address)
	}
	conn, err := net.DialTimeout(p.networkName(), ready.Address, waitTimeout)
	if err != nil {
		t.Fatalf("the server printed ready, but does not accept a connection: %v", err)
	}
	conn.Close()
	if err := server.Stop(); err != nil {
		t.Fatalf("the server failed when its input ended: %v", err)
	}
	result, err := server.Result(p.waitContext(t))
	if err != nil {
		t.Fatalf("the server printed no result when its input ended: %v", err)
	}
	if result.Server == nil {
		t.Error("the server's result lacks the part `server`")
	}
}

func (p Peer) checkServerAnswers(t T) {
	_, ready := p.startPeerServer(t)
	p.expectAnswers(t, ready)
}

func (p Peer) checkTakenAddress(t T) {
	taken := p.startReferenceServer(t).Address
	server := p.startWorker(t, p.Command, p.newSpec(worker.ServerRole, taken))
	_, err := server.Ready(p.waitContext(t))
	expectErrorEvent(t, err, taken)
}

// checkHostileClients opens connections and sends random bytes on them. The server must still
// answer other clients afterwards.
func (p Peer) checkHostileClients(t T) {
	_, ready := p.startPeerServer(t)
	random := rand.NewChaCha8([32]byte{})
	for i := range 100 {
		conn, err := net.DialTimeout(p.networkName(), ready.Address, waitTimeout)
		if err != nil {
			t.Fatalf("open connection %d to the server: %v", i, err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		said := make([]byte, i*i)
		_, _ = random.Read(said) // this never fails
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write(said) // this fails if the server has closed the connection
		if i%2 == 0 {
			_ = conn.Close()
		}
	}
	p.expectAnswers(t, ready)
}

// An InteropEnd is a worker that plays one end, and the variant that it gets.
type InteropEnd struct {
	Command []string
	Stack   string
}

// CheckInterop checks that the client of one worker can call the server of another worker.
func CheckInterop(t T, workload string, server, client InteropEnd) {
	t.Helper()
	p := Peer{Stack: server.Stack}
	serving := withWorkload(workload, p.newSpec(worker.ServerRole, anyPortAddress))
	ready, err := p.startWorker(t, server.Command, serving).Ready(p.waitContext(t))
	if err != nil {
		t.Fatal(err)
	}
	p.Stack = client.Stack
	expectConsistentResult(t, p.measureWith(t, client.Command, withWorkload(workload, p.clientSpec(ready))), callersPerClient*requestsPerCaller)
}

const defaultWorkload = "echo"

// otherWorkloads returns the worker's workloads, except the default and those that need options.
func (p Peer) otherWorkloads() []string {
	if p.Able == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.Able.Workloads), func(w string) bool { return w == defaultWorkload || !optionFreeWorkloads[w] })
}

// optionFreeWorkloads contains the workloads that need no options.
var optionFreeWorkloads = map[string]bool{"ping": true, "chat": true}

func (p Peer) checkCapabilities(t T) {
	able, err := AskCapabilities(t.Context(), p.Command)
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(p.Stack, ":")
	switch _, speaks := able.Stacks[name]; {
	case able.Contract != worker.Contract:
		t.Errorf("the worker implements version %d of the contract: want version %d", able.Contract, worker.Contract)
	case !speaks:
		t.Errorf("the worker's capabilities lack the stack %s", name)
	case !slices.Contains(able.Workloads, defaultWorkload):
		t.Errorf("the worker's capabilities list the workloads %q: want %s among them", able.Workloads, defaultWorkload)
	case p.Server && !slices.Contains(able.Roles, worker.ServerRole) || p.Client && !slices.Contains(able.Roles, worker.ClientRole):
		t.Errorf("the worker's capabilities list the roles %q: want also the roles under test", able.Roles)
	case p.Client && !slices.Contains(able.Loads, "closed"):
		t.Errorf("the worker's capabilities list the loads %q: want closed among them", able.Loads)
	}
}

// withWorkload returns a spec with the named workload instead of its own.
func withWorkload(workload string, s worker.Spec) worker.Spec {
	s.Workload.Name = workload
	if workload == "ping" {
		s.Workload.RequestBytes, s.Workload.ResponseBytes = 0, 0
	}
	return s
}

type workerEnd struct {
	command []string
	spec    worker.Spec
}

// expectCallBetween expects the client to call the server's workload and to get answers. It also
// accepts an error that names the workload, since some stacks cannot carry every workload.
func (p Peer) expectCallBetween(workload string, server, client workerEnd) func(T) {
	return func(t T) {
		ready, err := p.startWorker(t, server.command, withWorkload(workload, server.spec)).Ready(p.waitContext(t))
		if checkRefusal(t, err, workload) {
			return
		}
		spec := withWorkload(workload, client.spec)
		spec.Address, spec.Client.RootPEM = ready.Address, ready.RootPEM
		result, err := p.startWorker(t, client.command, spec).Result(p.waitContext(t))
		if checkRefusal(t, err, workload) {
			return
		}
		if result.Client == nil {
			t.Fatal("the client's result lacks the part `client`")
		}
		expectConsistentResult(t, result.Client, callersPerClient*requestsPerCaller)
	}
}
