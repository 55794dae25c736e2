// Package conform checks a worker in any language against the process contract in
// docs/worker-contract.md.
//
// A check starts the worker as the lab would, with a reference worker as the other end, and
// reports every breach of the contract. Wirelab's own workers and peers are tested with them, and
// `wirelab peers check` checks a worker of anybody's.
package conform

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
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
	// Command is the command that starts the worker.
	Command []string
	// Reference is the command of the other end: a worker that keeps the contract.
	Reference []string
	// Stack is a variant that both workers speak.
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

const anyPort = "127.0.0.1:0"

var callsFiles atomic.Int64

// reference returns the same spec for the other end, without the peer's options.
func (p Peer) reference(s worker.Spec) worker.Spec {
	if p.Able != nil {
		s.Stack, _, _ = strings.Cut(s.Stack, ":")
	}
	return s
}

func (p Peer) network() string {
	if name, _, _ := strings.Cut(p.Stack, ":"); strings.HasSuffix(name, "h3") {
		return "udp"
	}
	return "tcp"
}

func (p Peer) start(t T, command []string, spec worker.Spec) *worker.Process {
	t.Helper()
	return launch(t, worker.Launch{Name: string(spec.Role), Command: command, Spec: spec})
}

func launch(t T, l worker.Launch) *worker.Process {
	t.Helper()
	process, err := worker.Start(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Kill()
		if l.Spec.Client != nil {
			_ = os.Remove(l.Spec.Client.CallsFile) // few workers make it
		}
	})
	return process
}

func (p Peer) context(t T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, fmt.Errorf("within %v", patience))
	t.Cleanup(cancel)
	return ctx
}

func (p Peer) listening(t T, command []string, spec worker.Spec) (*worker.Process, worker.Ready) {
	t.Helper()
	server := p.start(t, command, spec)
	ready, err := server.Ready(p.context(t))
	if err != nil {
		t.Fatal(err)
	}
	return server, ready
}

func (p Peer) server(t T) (*worker.Process, worker.Ready) {
	t.Helper()
	return p.listening(t, p.Command, p.spec(worker.ServerRole, anyPort))
}

func (p Peer) otherServer(t T) worker.Ready {
	t.Helper()
	_, ready := p.listening(t, p.Reference, p.reference(p.spec(worker.ServerRole, anyPort)))
	return ready
}

func (p Peer) client(server worker.Ready) worker.Spec {
	spec := p.spec(worker.ClientRole, server.Address)
	spec.Client.RootPEM = server.RootPEM
	return spec
}

// answers expects the peer's server to answer the reference's client.
func (p Peer) answers(t T, server worker.Ready) {
	t.Helper()
	checkResult(t, p.measure(t, p.Reference, p.reference(p.client(server))), clients*requests)
}

func (p Peer) measure(t T, command []string, spec worker.Spec) *worker.ClientResult {
	t.Helper()
	return p.resultOf(t, p.start(t, command, spec))
}

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

// wantError expects an error event whose message contains the word.
func wantError(t T, err error, word string) {
	t.Helper()
	if !refused(t, err, word) {
		t.Fatal("no error event")
	}
}

// refused reports whether there is an error. It must come from an error event with the word.
func refused(t T, err error, word string) bool {
	t.Helper()
	var fault *worker.Error
	switch {
	case err == nil:
		return false
	case !errors.As(err, &fault) || !fault.Reported:
		t.Fatalf("no error event: %v", err)
	case !strings.Contains(fault.What, word):
		t.Fatalf("the error does not name %q: %v", word, fault)
	}
	return true
}

// checkResult expects a consistent measurement of that many requests; 0 means any number
// above zero.
func checkResult(t T, r *worker.ClientResult, requests int64) {
	t.Helper()
	if r.Requests <= 0 {
		t.Error("no request ended in the window")
	} else if requests > 0 && r.Requests != requests {
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
		t.Error("the result lacks the client's cost")
	}
	// Little's law, loosely: the windows here are short. At either edge a call of each client may
	// lie partly outside. It may take as long as the longest call, or longer if the machine stood
	// still: the straddling calls report their time.
	window := float64(r.EndNS - r.BeginNS - r.PausedNS)
	product := float64(r.Completed) / window * float64(r.Service.Sum) / float64(r.Service.Count)
	edges := (2*clients*float64(service.Max()) + float64(r.StraddlingNS)) / window
	if math.Abs(product-r.InFlight) > 0.25*r.InFlight+edges {
		t.Errorf("%.3f calls in flight, and throughput × service time gives %.3f", r.InFlight, product)
	}
}

// A T runs a check, as a testing.T does.
type T interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Cleanup(clean func())
	Context() context.Context
}

// askPatience is short, since the worker only has to print its capabilities.
const askPatience = 10 * time.Second

// ErrNotStarted is wrapped by the error of a worker that did not start.
var ErrNotStarted = errors.New("the worker could not be started")

// Ask asks a worker for its capabilities.
func Ask(ctx context.Context, command []string) (*worker.Capabilities, error) {
	process, err := worker.Start(worker.Launch{
		Name: "worker", Command: command, Spec: worker.Spec{Contract: worker.Contract, Role: worker.CapabilitiesRole},
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	defer process.Kill()
	ctx, cancel := context.WithTimeoutCause(ctx, askPatience, fmt.Errorf("within %v", askPatience))
	defer cancel()
	able, err := process.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	return &able, process.Stop()
}

// Choose returns a peer for each stack that the worker's capabilities list, or that p asks for.
// say gets a line if the worker does not report its capabilities.
func Choose(ctx context.Context, p Peer, say func(line string)) ([]Peer, error) {
	asked := p.Server || p.Client
	able, err := Ask(ctx, p.Command)
	switch {
	case ctx.Err() != nil || errors.Is(err, ErrNotStarted):
		return nil, err
	case err != nil && (p.Stack == "" || !asked):
		return nil, fmt.Errorf("the worker does not report its capabilities (%w): give --stack, and --server, --client or both", err)
	case err != nil:
		say(fmt.Sprintf("the worker does not report its capabilities; the checks follow the flags: %v", err))
		return []Peer{p}, nil
	}
	p.Able = able
	if !asked {
		p.Server, p.Client = slices.Contains(able.Roles, worker.ServerRole), slices.Contains(able.Roles, worker.ClientRole)
	}
	if p.Stack != "" {
		return []Peer{p}, nil
	}
	var all []Peer
	for _, name := range slices.Sorted(maps.Keys(able.Stacks)) {
		p.Stack = name
		all = append(all, p)
	}
	return all, nil
}
