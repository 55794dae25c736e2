package conform

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/run/worker"
)

// askPatience is for who need not do anything.
const askPatience = 10 * time.Second

// ErrNotStarted is wrapped where there is no worker to ask.
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

// Peers returns the peers that a worker can be: one for each of its stacks.
func Peers(p Peer) []Peer {
	var all []Peer
	for name := range p.Able.Stacks {
		p.Stack = name
		p.Server = slices.Contains(p.Able.Roles, worker.ServerRole)
		p.Client = slices.Contains(p.Able.Roles, worker.ClientRole)
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Peer) int { return strings.Compare(a.Stack, b.Stack) })
	return all
}

const usual = "echo"

// more are the workloads besides the usual one.
func (p Peer) more() []string {
	if p.Able == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.Able.Workloads), func(w string) bool { return w == usual || !small[w] })
}

// small are the workloads that the suite can ask for without knowing their options.
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
		t.Errorf("it does not say that it speaks %s", name)
	case !slices.Contains(able.Workloads, usual):
		t.Errorf("workloads %q: want %s among them", able.Workloads, usual)
	case p.Server && !slices.Contains(able.Roles, worker.ServerRole) || p.Client && !slices.Contains(able.Roles, worker.ClientRole):
		t.Errorf("roles %q: they are not those that it is held against", able.Roles)
	case p.Client && !slices.Contains(able.Loads, "closed"):
		t.Errorf("loads %q: every client keeps a closed loop", able.Loads)
	}
}

// of is a spec for another workload than the usual one.
func of(workload string, s worker.Spec) worker.Spec {
	s.Workload.Name = workload
	if workload == "ping" {
		s.Workload.RequestBytes, s.Workload.ResponseBytes = 0, 0
	}
	return s
}

// serves expects a workload to be served, or refused by name: not every stack carries it.
func (p Peer) serves(workload string) func(T) {
	return func(t T) {
		server, client := p.spec(worker.ServerRole, anyPort), p.reference(p.spec(worker.ClientRole, ""))
		p.between(t, workload, end{p.Command, server}, end{p.Reference, client})
	}
}

// calls expects a workload to be called, or refused by name.
func (p Peer) calls(workload string) func(T) {
	return func(t T) {
		server, client := p.reference(p.spec(worker.ServerRole, anyPort)), p.spec(worker.ClientRole, "")
		p.between(t, workload, end{p.Reference, server}, end{p.Command, client})
	}
}

// An end is a program and its spec.
type end struct {
	command []string
	spec    worker.Spec
}

func (p Peer) between(t T, workload string, server, client end) {
	t.Helper()
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

// Interoperate has one worker's client call another's server.
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

// refused reports whether an error event names the word; another error ends the check.
func refused(t T, err error, word string) bool {
	t.Helper()
	if err == nil {
		return false
	}
	var fault *worker.Error
	if !errors.As(err, &fault) || !fault.Reported || !strings.Contains(fault.What, word) {
		t.Fatal(err)
	}
	return true
}
