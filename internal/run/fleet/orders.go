package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/nats-io/nuid"

	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/run/worker"
)

// An orderVerb says what an agent must do.
type orderVerb string

const (
	claimAgent   orderVerb = "claim"   // lease the agent to the run
	renewAgent   orderVerb = "renew"   // extend the lease
	releaseAgent orderVerb = "release" // end the run's workers, and end the lease
	startVerb    orderVerb = "start"   // start a worker
	tellVerb     orderVerb = "tell"    // send a control to a worker
	stopVerb     orderVerb = "stop"    // end the input of a worker
	killVerb     orderVerb = "kill"    // kill a worker
)

// A controllerOrder is a controller's message to an agent.
type controllerOrder struct {
	Agent string `json:"agent"`
	// Session is the identifier from the agent's card. It changes when the agent restarts.
	Session string    `json:"session"`
	Run     string    `json:"run"`    // the controller's run, to which the agent is leased
	Number  uint64    `json:"number"` // grows with each order of the run
	Do      orderVerb `json:"do"`

	LeaseNS int64  `json:"lease_ns,omitempty"` // length of the lease, for claim and renew
	Worker  string `json:"worker,omitempty"`   // the worker's name; empty if no worker is meant
	// Program and Spec describe a worker to start. Other orders leave them empty.
	Program string       `json:"program,omitempty"` // hash of the worker's program
	Spec    *worker.Spec `json:"spec,omitempty"`
	// Window is the window that a server's probe observed, on the agent's clock, for stop.
	Window *probe.Span `json:"window,omitempty"`
	// Tell is the control for a worker. Other orders leave it empty.
	Tell *worker.ControlOrder `json:"tell,omitempty"`
}

// A signedOrder holds an encoded order and the controller's signature.
type signedOrder struct {
	Order     json.RawMessage `json:"order"`
	Signature []byte          `json:"signature"` // signature of the bytes in Order
}

// An orderAnswer is an agent's reply to an order.
type orderAnswer struct {
	Refused string `json:"refused,omitempty"` // why the agent refuses; empty if it accepts
	// Busy says that the agent refuses because another run has leased it.
	Busy bool `json:"busy,omitempty"`
	// Use is set only in the answer to a renewal.
	Use *cpuUse `json:"use,omitempty"`
}

// signOrder encodes and signs an order.
func signOrder(o controllerOrder, key nkeys.KeyPair) ([]byte, error) {
	plain, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	signature, err := key.Sign(plain)
	if err != nil {
		return nil, err
	}
	return json.Marshal(signedOrder{plain, signature})
}

// An orderChecker accepts only orders with the controller's signature, for this agent and its
// present session. It accepts no order twice.
type orderChecker struct {
	agent, session string
	key            nkeys.KeyPair     // the controller's public key
	last           map[string]uint64 // the number of each run's latest accepted order
}

// maxRunsPerSession bounds the runs of a session, because the orderChecker keeps all their numbers.
const maxRunsPerSession = 100_000

func newOrderChecker(agent, session, publicKey string) (*orderChecker, error) {
	key, err := nkeys.FromPublicKey(publicKey)
	if err != nil {
		return nil, fmt.Errorf("read the key that signs orders: %w", err)
	}
	return &orderChecker{agent: agent, session: session, key: key, last: map[string]uint64{}}, nil
}

// checkOrder returns the order in a message, or an error if the agent must refuse the order.
func (d *orderChecker) checkOrder(message []byte) (*controllerOrder, error) {
	var signed signedOrder
	if err := json.Unmarshal(message, &signed); err != nil || len(signed.Order) == 0 {
		return nil, errors.New("the message is not a signed order")
	}
	if err := d.key.Verify(signed.Order, signed.Signature); err != nil {
		return nil, errors.New("the order is not signed by this fleet's controller")
	}
	var o controllerOrder
	if err := json.Unmarshal(signed.Order, &o); err != nil {
		return nil, fmt.Errorf("the order is signed, but cannot be read: %w", err)
	}
	switch {
	case o.Agent != d.agent:
		return nil, fmt.Errorf("the order is for the agent %q", o.Agent)
	case o.Session != d.session:
		return nil, errors.New("the order is for an earlier session of this agent")
	case o.Run == "":
		return nil, errors.New("the order does not name its run")
	case o.Number <= d.last[o.Run]:
		return nil, fmt.Errorf("the order was sent before: its number is %d, but the order number %d of this run was already executed", o.Number, d.last[o.Run])
	case len(d.last) >= maxRunsPerSession && d.last[o.Run] == 0:
		return nil, fmt.Errorf("this agent has already worked for %d runs: restart the agent", maxRunsPerSession)
	}
	d.last[o.Run] = o.Number
	return &o, nil
}

// An answerReceiver receives the answers to all orders.
type answerReceiver struct {
	guard   sync.Mutex // guards the fields below
	waiting map[string]chan *nats.Msg
}

func (a *answerReceiver) deliver(m *nats.Msg) {
	a.guard.Lock()
	to := a.waiting[m.Subject]
	a.guard.Unlock()
	if to == nil {
		return // the sender has stopped waiting for the answer
	}
	select {
	case to <- m:
	default: // an earlier answer to the same order has arrived
	}
}

// A pendingAnswer waits for the answer to one order.
type pendingAnswer struct {
	from  *answerReceiver
	inbox string
	came  chan *nats.Msg
}

// register makes a pendingAnswer. The caller must call unregister.
func (a *answerReceiver) register(c *protocol.Credentials, agent string) *pendingAnswer {
	a.guard.Lock()
	defer a.guard.Unlock()
	e := &pendingAnswer{from: a, inbox: c.AnswerSubject(agent, nuid.Next()), came: make(chan *nats.Msg, 1)}
	a.waiting[e.inbox] = e.came
	return e
}

func (e *pendingAnswer) unregister() {
	e.from.guard.Lock()
	defer e.from.guard.Unlock()
	delete(e.from.waiting, e.inbox)
}

// noRespondersStatus is the status in a NATS server's reply if nobody receives the request.
const noRespondersStatus = "503"

func (e *pendingAnswer) awaitAnswer(ctx context.Context) ([]byte, error) {
	select {
	case m := <-e.came:
		if len(m.Data) == 0 && m.Header.Get("Status") == noRespondersStatus {
			return nil, nats.ErrNoResponders
		}
		return m.Data, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
