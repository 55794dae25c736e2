package conform

import (
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

// A Check is one check of the suite.
type Check struct {
	Name string
	Run  func(T)
}

// Try runs the check outside of tests, and returns what it found.
func (c Check) Try(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	t := &trial{ctx: ctx}
	ended := make(chan struct{})
	go func() { // a goroutine of its own: Fatal ends it
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

// trial is the T of Try. Checks call it from their own goroutine only.
type trial struct {
	ctx      context.Context
	found    []error
	cleanups []func()
}

func (t *trial) Helper()                  {}
func (t *trial) Context() context.Context { return t.ctx }
func (t *trial) Cleanup(clean func())     { t.cleanups = append(t.cleanups, clean) }
func (t *trial) Errorf(format string, args ...any) {
	t.found = append(t.found, fmt.Errorf(format, args...))
}
func (t *trial) Error(args ...any) { t.Errorf("%s", fmt.Sprint(args...)) }

func (t *trial) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

func (t *trial) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprint(args...)) }

// Checks returns the checks for the peer's roles.
func Checks(p Peer) []Check {
	all := []Check{
		{"refuses another contract", p.refuses("contract", func(s *worker.Spec) { s.Contract = worker.Contract + 1 })},
		{"refuses an unknown role", p.refuses("role", func(s *worker.Spec) { s.Role = "bystander" })},
		{"refuses an unknown stack", p.refuses("no-such-stack", func(s *worker.Spec) { s.Stack = "no-such-stack" })},
		{"refuses an unknown workload", p.refuses("no-such-workload", func(s *worker.Spec) { s.Workload.Name = "no-such-workload" })},
	}
	if p.Able != nil {
		all = append(all, Check{"says what it can do", p.saysWhatItCan})
	}
	if p.Server {
		all = append(
			all,
			Check{"server/life", p.serverLife},
			Check{"server/answers", p.serverAnswers},
			Check{"server/address taken", p.addressTaken},
			Check{"server/hostile clients", p.hostileClients},
		)
		for _, workload := range p.more() {
			server, client := p.spec(worker.ServerRole, anyPort), p.reference(p.spec(worker.ClientRole, ""))
			all = append(all, Check{"server/answers " + workload, p.between(workload, end{p.Command, server}, end{p.Reference, client})})
		}
	}
	if p.Client {
		all = append(all, p.clientChecks()...)
	}
	return all
}

func (p Peer) clientChecks() []Check {
	all := []Check{
		{"client/requests", p.measures(clients*requests, worker.Load{Model: "closed", RequestsPerClient: requests})},
		{"client/uneven requests", p.measures(clients*requests+2, worker.Load{Model: "closed", RequestsPerClient: requests, ExtraRequests: 2})},
		{"client/duration", p.measures(0, worker.Load{Model: "closed", DurationNS: int64(300 * time.Millisecond)})},
		{"client/warm-up", p.measures(0, worker.Load{
			Model: "closed", DurationNS: int64(300 * time.Millisecond),
			WarmUpAtLeastNS: int64(50 * time.Millisecond), WarmUpAtMostNS: int64(100 * time.Millisecond),
		})},
		{"client/nobody listens", p.noListener},
		{"client/input ends", p.clientInputEnds},
		{"client/wrong answers", p.wrongAnswers},
	}
	if p.Able == nil || slices.Contains(p.Able.Loads, "open") {
		all = append(all, Check{"client/open loop", p.measures(200, worker.Load{
			Model: "open", RatePerSecond: 500, Arrivals: "constant", DurationNS: int64(400 * time.Millisecond),
		})})
	} else {
		all = append(all, Check{"client/refuses other loads", p.refusesLoad})
	}
	if p.obeys(worker.EndControl) {
		all = append(all, Check{"client/ends early", p.endsEarly})
	}
	if p.obeys(worker.PauseControl) {
		all = append(all, Check{"client/pauses", p.pauses})
	}
	if p.obeys(worker.GoControl) && p.obeys(worker.OpenControl) {
		all = append(
			all,
			Check{"client/group", p.joins(worker.Load{Model: "closed", RequestsPerClient: requests, ExtraRequests: 4})},
			Check{"client/group without a warm-up", p.joinsCold},
		)
		if slices.Contains(p.Able.Loads, "open") {
			all = append(all, Check{"client/group's schedule", p.joins(worker.Load{Model: "open", RatePerSecond: 500, Arrivals: "constant", DurationNS: 4e8})})
		}
	}
	for _, workload := range p.more() {
		server, client := p.reference(p.spec(worker.ServerRole, anyPort)), p.spec(worker.ClientRole, "")
		all = append(all, Check{"client/calls " + workload, p.between(workload, end{p.Reference, server}, end{p.Command, client})})
	}
	if p.Able != nil {
		for _, mode := range p.Able.Connections {
			all = append(all, Check{"client/connections " + mode, p.connects(mode)})
		}
	}
	return all
}

func (p Peer) obeys(control worker.Control) bool {
	return p.Able != nil && slices.Contains(p.Able.Controls, control)
}

func (p Peer) refuses(word string, spoil func(*worker.Spec)) func(T) {
	return func(t T) {
		role := worker.ServerRole
		if !p.Server {
			role = worker.ClientRole
		}
		spec := p.spec(role, anyPort)
		spoil(&spec)
		process := p.start(t, p.Command, spec)
		_, err := process.Ready(p.context(t))
		wantError(t, err, word)
		if err := process.Stop(); err == nil {
			t.Error("the worker ended as if all were well")
		}
	}
}

func (p Peer) serverLife(t T) {
	server, ready := p.server(t)
	_, port, err := net.SplitHostPort(ready.Address)
	if err != nil || port == "0" {
		t.Fatalf("ready with address %q: want HOST:PORT with the real port", ready.Address)
	}
	conn, err := net.DialTimeout(p.network(), ready.Address, patience)
	if err != nil {
		t.Fatalf("ready, but: %v", err)
	}
	conn.Close()
	if err := server.Stop(); err != nil {
		t.Fatalf("the end of its input is no error: %v", err)
	}
	result, err := server.Result(p.context(t))
	if err != nil {
		t.Fatalf("a server prints a result when its input ends: %v", err)
	}
	if result.Server == nil {
		t.Error("the result has no part `server`")
	}
}

func (p Peer) serverAnswers(t T) {
	_, ready := p.server(t)
	p.answers(t, ready)
}

func (p Peer) addressTaken(t T) {
	taken := p.otherServer(t).Address
	server := p.start(t, p.Command, p.spec(worker.ServerRole, taken))
	_, err := server.Ready(p.context(t))
	wantError(t, err, taken)
}

// hostileClients send bytes that are no request, and close their connection, or keep it open.
// The server must still answer the others.
func (p Peer) hostileClients(t T) {
	_, ready := p.server(t)
	random := rand.NewChaCha8([32]byte{})
	for i := range 100 {
		conn, err := net.DialTimeout(p.network(), ready.Address, patience)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		said := make([]byte, i*i)
		_, _ = random.Read(said) // never fails
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write(said) // the server may have closed it
		if i%2 == 0 {
			_ = conn.Close()
		}
	}
	p.answers(t, ready)
}

// Interoperate makes one worker's client call another worker's server.
func Interoperate(t T, stack, workload string, server, client []string) {
	t.Helper()
	p := Peer{Stack: stack}
	serving := of(workload, p.spec(worker.ServerRole, anyPort))
	ready, err := p.start(t, server, serving).Ready(p.context(t))
	if err != nil {
		t.Fatal(err)
	}
	checkResult(t, p.measure(t, client, of(workload, p.client(ready))), clients*requests)
}

const usual = "echo"

// more returns the workloads besides the usual one.
func (p Peer) more() []string {
	if p.Able == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.Able.Workloads), func(w string) bool { return w == usual || !small[w] })
}

// small lists the workloads that the suite can ask for without knowing their options.
var small = map[string]bool{"ping": true, "chat": true}

func (p Peer) saysWhatItCan(t T) {
	able, err := Ask(t.Context(), p.Command)
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(p.Stack, ":")
	switch _, speaks := able.Stacks[name]; {
	case able.Contract != worker.Contract:
		t.Errorf("it speaks version %d of the contract, want %d", able.Contract, worker.Contract)
	case !speaks:
		t.Errorf("its capabilities do not include the stack %s", name)
	case !slices.Contains(able.Workloads, usual):
		t.Errorf("workloads %q: want %s among them", able.Workloads, usual)
	case p.Server && !slices.Contains(able.Roles, worker.ServerRole) || p.Client && !slices.Contains(able.Roles, worker.ClientRole):
		t.Errorf("roles %q: they differ from the roles under test", able.Roles)
	case p.Client && !slices.Contains(able.Loads, "closed"):
		t.Errorf("loads %q: every client keeps a closed loop", able.Loads)
	}
}

// of returns a spec for another workload than the usual one.
func of(workload string, s worker.Spec) worker.Spec {
	s.Workload.Name = workload
	if workload == "ping" {
		s.Workload.RequestBytes, s.Workload.ResponseBytes = 0, 0
	}
	return s
}

type end struct {
	command []string
	spec    worker.Spec
}

// between expects the client to call the workload and the server to answer, or an error that
// names the workload: not every stack carries it.
func (p Peer) between(workload string, server, client end) func(T) {
	return func(t T) {
		ready, err := p.start(t, server.command, of(workload, server.spec)).Ready(p.context(t))
		if refused(t, err, workload) {
			return
		}
		spec := of(workload, client.spec)
		spec.Address, spec.Client.RootPEM = ready.Address, ready.RootPEM
		result, err := p.start(t, client.command, spec).Result(p.context(t))
		if refused(t, err, workload) {
			return
		}
		if result.Client == nil {
			t.Fatal("the result has no part `client`")
		}
		checkResult(t, result.Client, clients*requests)
	}
}
