// Package conform checks a worker in any language against the process contract in
// docs/worker-contract.md.
//
// A check starts the worker as the lab does. A reference worker is the other end. The check reports
// each breach of the contract. Tests check wirelab's own workers and peers; the command `wirelab
// peers check` checks a user's worker.
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

// Peer describes a worker that is tested.
type Peer struct {
	// Command is the command that starts the worker under test.
	Command []string
	// Reference is the command that starts the other end, a worker that is known to be correct.
	Reference []string
	// Stack is a variant that the tested worker and the reference worker support.
	Stack string
	// Server and Client say which roles the tested worker can play.
	Server, Client bool
	// Able holds the worker's capabilities. It is nil if the worker does not report any.
	Able *worker.Capabilities
}

// waitTimeout limits each wait of a check or of a client. A correct worker is much faster.
const waitTimeout = time.Minute

const (
	callersPerClient  = 3
	requestsPerCaller = 50 // used if a number of requests bounds the window
)

func (p Peer) newSpec(role worker.Role, address string) worker.Spec {
	s := worker.Spec{
		Contract: worker.Contract, Role: role, Stack: p.Stack, Address: address,
		Workload: worker.Workload{Name: "echo", RequestBytes: 64, ResponseBytes: 64},
	}
	if role == worker.ClientRole {
		s.Client = &worker.ClientSpec{
			Clients: callersPerClient, Connection: "per-worker", Seed: 1,
			Load: worker.Load{Model: "closed", RequestsPerClient: requestsPerCaller, DrainNS: int64(waitTimeout)},
			// Each spec needs a file of its own, since checks run in parallel.
			CallsFile: filepath.Join(os.TempDir(), fmt.Sprintf("wirelab-conform-%d-%d", os.Getpid(), callsFileCount.Add(1))),
		}
	}
	return s
}

const anyPortAddress = "127.0.0.1:0"

var callsFileCount atomic.Int64

// referenceSpec returns the spec for the reference worker, which lacks the peer's options.
func (p Peer) referenceSpec(s worker.Spec) worker.Spec {
	if p.Able != nil {
		s.Stack, _, _ = strings.Cut(s.Stack, ":")
	}
	return s
}

func (p Peer) networkName() string {
	if name, _, _ := strings.Cut(p.Stack, ":"); strings.HasSuffix(name, "h3") {
		return "udp"
	}
	return "tcp"
}

func (p Peer) startWorker(t T, command []string, spec worker.Spec) *worker.Process {
	t.Helper()
	return launchWorker(t, worker.Launch{Name: string(spec.Role), Command: command, Spec: spec})
}

func launchWorker(t T, l worker.Launch) *worker.Process {
	t.Helper()
	process, err := worker.Start(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Kill()
		if l.Spec.Client != nil {
			_ = os.Remove(l.Spec.Client.CallsFile) // most workers do not write this file
		}
	})
	return process
}

func (p Peer) waitContext(t T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), waitTimeout, fmt.Errorf("the wait of %v is over", waitTimeout))
	t.Cleanup(cancel)
	return ctx
}

func (p Peer) startServer(t T, command []string, spec worker.Spec) (*worker.Process, worker.Ready) {
	t.Helper()
	server := p.startWorker(t, command, spec)
	ready, err := server.Ready(p.waitContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return server, ready
}

func (p Peer) startPeerServer(t T) (*worker.Process, worker.Ready) {
	t.Helper()
	return p.startServer(t, p.Command, p.newSpec(worker.ServerRole, anyPortAddress))
}

func (p Peer) startReferenceServer(t T) worker.Ready {
	t.Helper()
	_, ready := p.startServer(t, p.Reference, p.referenceSpec(p.newSpec(worker.ServerRole, anyPortAddress)))
	return ready
}

func (p Peer) clientSpec(server worker.Ready) worker.Spec {
	spec := p.newSpec(worker.ClientRole, server.Address)
	spec.Client.RootPEM = server.RootPEM
	return spec
}

// expectAnswers expects the server to answer calls of the reference worker's client.
func (p Peer) expectAnswers(t T, server worker.Ready) {
	t.Helper()
	expectConsistentResult(t, p.measureWith(t, p.Reference, p.referenceSpec(p.clientSpec(server))), callersPerClient*requestsPerCaller)
}

func (p Peer) measureWith(t T, command []string, spec worker.Spec) *worker.ClientResult {
	t.Helper()
	return p.clientResult(t, p.startWorker(t, command, spec))
}

func (p Peer) clientResult(t T, client *worker.Process) *worker.ClientResult {
	t.Helper()
	result, err := client.Result(p.waitContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Stop(); err != nil {
		t.Fatalf("the client did not end without an error after its result: %v", err)
	}
	if result.Client == nil {
		t.Fatal("the client's result lacks the part `client`")
	}
	return result.Client
}

// expectErrorEvent fails the check unless err is an error event that contains the word.
func expectErrorEvent(t T, err error, word string) {
	t.Helper()
	if !checkRefusal(t, err, word) {
		t.Fatalf("the worker printed no error event: want one that contains %q", word)
	}
}

// checkRefusal reports whether err is set. It fails the check if err is not nil and not an error
// event that contains the word.
func checkRefusal(t T, err error, word string) bool {
	t.Helper()
	var fault *worker.Error
	switch {
	case err == nil:
		return false
	case !errors.As(err, &fault) || !fault.Reported:
		t.Fatalf("the worker failed without an error event: %v", err)
	case !strings.Contains(fault.What, word):
		t.Fatalf("the worker's error event does not contain %q: %v", word, fault)
	}
	return true
}

// expectConsistentResult expects figures that do not contradict each other, and this number of
// requests. 0 accepts any number above 0.
func expectConsistentResult(t T, r *worker.ClientResult, requests int64) {
	t.Helper()
	if r.Requests <= 0 {
		t.Error("the client measured no request in its window: want at least one")
	} else if requests > 0 && r.Requests != requests {
		t.Errorf("the client measured %d requests: want %d", r.Requests, requests)
	}
	for _, f := range r.Failures {
		t.Errorf("%d of the client's calls failed with the code %s: %s", f.Count, f.Code, f.Example)
	}
	if r.Service.Count != r.Requests {
		t.Errorf("the result has %d service times for %d requests: want equal numbers", r.Service.Count, r.Requests)
	}
	service, err := r.Service.Decode()
	if err != nil {
		t.Fatalf("read the service times in the result: %v", err)
	}
	if r.EndNS <= r.BeginNS {
		t.Fatalf("the window ends at %d ns, but begins at %d ns: want the end after the begin", r.EndNS, r.BeginNS)
	}
	if r.Connections.Total.Opened < 1 {
		t.Error("the client got answers, but reports no opened connection")
	}
	if r.CallsWritten == 0 && r.Usage == nil || r.Usage != nil && r.Usage.CPU() < 0 {
		t.Error("the result lacks the client's cost: want the part `usage`")
	}
	// Little's law holds only roughly for such short windows. At each edge of the window, one call
	// per client may be partly outside. Such a call is at most as long as the longest call, or as
	// StraddlingNS says. Calls that were due before an edge and were sent late are in flight, but not
	// measured: BacklogNS is their time.
	window := float64(r.EndNS - r.BeginNS - r.PausedNS)
	product := float64(r.Completed) / window * float64(r.Service.Sum) / float64(r.Service.Count)
	edges := (2*callersPerClient*float64(service.Max()) + float64(r.StraddlingNS+r.BacklogNS)) / window
	if math.Abs(product-r.InFlight) > 0.25*r.InFlight+edges {
		t.Errorf("the result reports %.3f calls in flight, but throughput × mean service time is %.3f: want about equal values", r.InFlight, product)
	}
}

// A T receives the errors of a check. *testing.T is a T.
type T interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Cleanup(clean func())
	Context() context.Context
}

// capabilitiesTimeout is short, since a worker has little to do for this.
const capabilitiesTimeout = 10 * time.Second

// ErrNotStarted is wrapped by the error for a worker's program that cannot be started.
var ErrNotStarted = errors.New("the worker could not be started")

// AskCapabilities starts a worker only to ask for its capabilities.
func AskCapabilities(ctx context.Context, command []string) (*worker.Capabilities, error) {
	process, err := worker.Start(worker.Launch{
		Name: "worker", Command: command, Spec: worker.Spec{Contract: worker.Contract, Role: worker.CapabilitiesRole},
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	defer process.Kill()
	ctx, cancel := context.WithTimeoutCause(ctx, capabilitiesTimeout, fmt.Errorf("the wait of %v is over", capabilitiesTimeout))
	defer cancel()
	able, err := process.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	return &able, process.Stop()
}

// ChoosePeers returns one Peer per stack in the worker's capabilities. If p.Stack is set, it
// returns only that stack. say gets a line if the worker reports no capabilities.
func ChoosePeers(ctx context.Context, p Peer, say func(line string)) ([]Peer, error) {
	asked := p.Server || p.Client
	able, err := AskCapabilities(ctx, p.Command)
	switch {
	case ctx.Err() != nil || errors.Is(err, ErrNotStarted):
		return nil, err
	case err != nil && (p.Stack == "" || !asked):
		return nil, fmt.Errorf("the worker does not report its capabilities (%w): give --stack, and --server, --client or both", err)
	case err != nil:
		say(fmt.Sprintf("the worker does not report its capabilities, so the flags choose the checks: %v", err))
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
