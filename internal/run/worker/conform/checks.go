// Package conform holds a worker in any language against the process contract of
// docs/worker-contract.md.
//
// A check starts the worker as the lab would, with a reference worker as the other end, and
// reports every breach of the contract. They are tests of wirelab's own workers and peers, and
// `wirelab peers check` holds anybody's worker against them.
package conform

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/run/worker"
)

// Peer is a worker under test.
type Peer struct {
	// Command starts it.
	Command []string
	// Reference starts the other end: a worker that keeps the contract.
	Reference []string
	// Stack is a variant that both speak.
	Stack string
	// Server and Client are the roles that the peer can play.
	Server, Client bool
	// Able holds its capabilities; nil: it reports none.
	Able *worker.Capabilities
}

// patience limits every wait of the suite, and a client's wait for its last answers. Only
// a failing peer comes near it.
const patience = time.Minute

const (
	clients  = 3  // the callers of each client
	requests = 50 // of each caller, where the load is not a time
)

// Check is one of the suite.
type Check struct {
	Name string
	Run  func(T)
}

// Checks returns those that the peer's roles call for.
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
			all = append(all, Check{"server/answers " + workload, p.serves(workload)})
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
	if p.Able != nil && slices.Contains(p.Able.Controls, worker.EndControl) {
		all = append(all, Check{"client/ends early", p.endsEarly})
	}
	if p.Able != nil && slices.Contains(p.Able.Controls, worker.PauseControl) {
		all = append(all, Check{"client/pauses", p.pauses})
	}
	if p.Able != nil && slices.Contains(p.Able.Controls, worker.GoControl) && slices.Contains(p.Able.Controls, worker.OpenControl) {
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
		all = append(all, Check{"client/calls " + workload, p.calls(workload)})
	}
	if p.Able != nil {
		for _, mode := range p.Able.Connections {
			all = append(all, Check{"client/connections " + mode, p.connects(mode)})
		}
	}
	return all
}

func (p Peer) spec(role worker.Role, address string) worker.Spec {
	s := worker.Spec{
		Contract: worker.Contract, Role: role, Stack: p.Stack, Address: address,
		Workload: worker.Workload{Name: "echo", RequestBytes: 64, ResponseBytes: 64},
	}
	if role == worker.ClientRole {
		s.Client = &worker.ClientSpec{
			Clients: clients, Connection: "per-worker", Seed: 1,
			Load: worker.Load{Model: "closed", RequestsPerClient: requests, DrainNS: int64(patience)},
			// A file of its own: checks run side by side.
			CallsFile: filepath.Join(os.TempDir(), fmt.Sprintf("wirelab-conform-%d-%d", os.Getpid(), callsFiles.Add(1))),
		}
	}
	return s
}

// callsFiles counts the files that clients were given for their calls.
var callsFiles atomic.Int64

// reference is the same spec for the other end, which has none of the peer's options.
func (p Peer) reference(s worker.Spec) worker.Spec {
	if p.Able != nil {
		s.Stack, _, _ = strings.Cut(s.Stack, ":")
	}
	return s
}

// network returns the network that the stack's servers listen on.
func (p Peer) network() string {
	if name, _, _ := strings.Cut(p.Stack, ":"); strings.HasSuffix(name, "h3") {
		return "udp"
	}
	return "tcp"
}

func (p Peer) start(t T, command []string, spec worker.Spec) *worker.Process {
	t.Helper()
	process, err := worker.Start(worker.Launch{Name: string(spec.Role), Command: command, Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Kill()
		if spec.Client != nil {
			_ = os.Remove(spec.Client.CallsFile) // few workers make it
		}
	})
	return process
}

func (p Peer) context(t T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, fmt.Errorf("within %v", patience))
	t.Cleanup(cancel)
	return ctx
}

// server starts the peer's server, and returns its ready event.
func (p Peer) server(t T) (*worker.Process, worker.Ready) {
	t.Helper()
	return p.listening(t, p.Command, p.spec(worker.ServerRole, anyPort))
}

// otherServer starts the reference's server.
func (p Peer) otherServer(t T) worker.Ready {
	t.Helper()
	_, ready := p.listening(t, p.Reference, p.reference(p.spec(worker.ServerRole, anyPort)))
	return ready
}

const anyPort = "127.0.0.1:0"

func (p Peer) listening(t T, command []string, spec worker.Spec) (*worker.Process, worker.Ready) {
	t.Helper()
	server := p.start(t, command, spec)
	ready, err := server.Ready(p.context(t))
	if err != nil {
		t.Fatal(err)
	}
	return server, ready
}

// client is the spec of a client of a server.
func (p Peer) client(server worker.Ready) worker.Spec {
	spec := p.spec(worker.ClientRole, server.Address)
	spec.Client.RootPEM = server.RootPEM
	return spec
}

// answers expects the reference's client to be answered by the peer's server.
func (p Peer) answers(t T, server worker.Ready) {
	t.Helper()
	checkResult(t, p.measure(t, p.Reference, p.reference(p.client(server))), clients*requests)
}

// refuses expects an error event with the word.
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

// hostileClients say what is no request, and go, or stay and say nothing more. Others are
// answered all the same.
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

// measure runs a client to its end.
func (p Peer) measure(t T, command []string, spec worker.Spec) *worker.ClientResult {
	t.Helper()
	return p.resultOf(t, p.start(t, command, spec))
}

// resultOf waits for a client's result, and for its end.
func (p Peer) resultOf(t T, client *worker.Process) *worker.ClientResult {
	t.Helper()
	result, err := client.Result(p.context(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Stop(); err != nil {
		t.Fatalf("a client ends by itself after its result: %v", err)
	}
	if result.Client == nil {
		t.Fatal("the result has no part `client`")
	}
	return result.Client
}

// measures expects the peer's client to measure that many requests (0: any number) under
// a load.
func (p Peer) measures(requests int64, load worker.Load) func(T) {
	return func(t T) {
		spec := p.client(p.otherServer(t))
		load.DrainNS = int64(patience)
		spec.Client.Load = load
		result := p.measure(t, p.Command, spec)
		checkResult(t, result, requests)
		if window := result.EndNS - result.BeginNS; load.Model == "closed" && load.DurationNS > 0 && window != load.DurationNS {
			t.Errorf("the window is %v, and %v was asked for", time.Duration(window), time.Duration(load.DurationNS))
		}
		if load.Model == "open" && (result.Response == nil || result.Pacing == nil) {
			t.Error("an open loop has response times and a pacing of its own")
		}
	}
}

func (p Peer) noListener(t T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.LocalAddr().String() // which nobody listens on, and no one else is given
	client := p.start(t, p.Command, p.spec(worker.ClientRole, address))
	_, err = client.Result(p.context(t))
	wantError(t, err, address)
}

func (p Peer) clientInputEnds(t T) {
	spec := p.client(p.otherServer(t))
	spec.Client.Load.RequestsPerClient = 0
	spec.Client.Load.DurationNS = int64(time.Hour)
	client := p.start(t, p.Command, spec)
	if _, err := client.Ready(p.context(t)); err != nil {
		t.Fatal(err)
	}
	// It may call that an error.
	if err := client.Stop(); err != nil && strings.Contains(err.Error(), "and was killed") {
		t.Errorf("its input ended, and it went on: %v", err)
	}
	if result, err := client.Result(p.context(t)); err == nil {
		t.Errorf("half a window is not a measurement, and yet it printed one: %+v", result.Client)
	}
}

// wantError expects an error event whose message has the word.
func wantError(t T, err error, word string) {
	t.Helper()
	var fault *worker.Error
	switch {
	case err == nil:
		t.Fatal("no error event")
	case !errors.As(err, &fault) || !fault.Reported:
		t.Fatalf("no error event: %v", err)
	case !strings.Contains(fault.What, word):
		t.Errorf("the error does not name %q: %v", word, fault)
	}
}

// checkResult expects a consistent measurement of that many requests; 0 means any number
// above zero.
func checkResult(t T, r *worker.ClientResult, requests int64) {
	t.Helper()
	if requests > 0 && r.Requests != requests || r.Requests <= 0 {
		t.Errorf("%d requests, want %d", r.Requests, requests)
	}
	for _, f := range r.Failures {
		t.Errorf("%d calls failed: %s: %s", f.Count, f.Code, f.Example)
	}
	if r.Service.Count != r.Requests {
		t.Errorf("%d service times of %d requests", r.Service.Count, r.Requests)
	}
	service, err := r.Service.Decode()
	if err != nil {
		t.Fatalf("the service times cannot be read: %v", err)
	}
	if r.EndNS <= r.BeginNS {
		t.Fatalf("the window ends (%d) before it begins (%d)", r.EndNS, r.BeginNS)
	}
	if r.Connections.Total.Opened < 1 {
		t.Error("there were answers, but no connection was opened")
	}
	if r.CallsWritten == 0 && r.Usage == nil || r.Usage != nil && r.Usage.CPU() < 0 {
		t.Error("the client does not say what it cost")
	}
	// Little's law, loosely: the windows here are short. At either edge a call of
	// each client may lie partly outside, and be as long as the longest; or longer,
	// where the machine stood still: those that straddle an edge say how long they took.
	window := float64(r.EndNS - r.BeginNS - r.PausedNS)
	product := float64(r.Completed) / window * float64(r.Service.Sum) / float64(r.Service.Count)
	edges := (2*clients*float64(service.Max()) + float64(r.StraddlingNS)) / window
	if math.Abs(product-r.InFlight) > 0.25*r.InFlight+edges {
		t.Errorf("%.3f calls in flight, and throughput × service time gives %.3f", r.InFlight, product)
	}
}
