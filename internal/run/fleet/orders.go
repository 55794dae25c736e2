package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"wirelab.dev/internal/run/worker"
)

// A verb says what an order asks of an agent.
type verb string

const (
	claim   verb = "claim"   // lease the agent to the run
	renew   verb = "renew"   // extend the lease
	release verb = "release" // end the run's workers, and end the lease
	start   verb = "start"   // start a worker
	tell    verb = "tell"    // send the worker a control
	stop    verb = "stop"    // end the worker's input
	kill    verb = "kill"    // end the worker at once
)

// An order is a controller's message to an agent.
type order struct {
	Agent   string `json:"agent"`
	Session string `json:"session"` // of the agent, from its card: after a restart it has another session
	Run     string `json:"run"`     // the run that gives the order
	Number  uint64 `json:"number"`  // grows with each order of the run to the session
	Do      verb   `json:"do"`

	LeaseNS int64  `json:"lease_ns,omitempty"` // claim and renew
	Worker  string `json:"worker,omitempty"`   // start, tell, stop and kill: the worker's name in the run
	// start:
	Program string        `json:"program,omitempty"` // the hash of the worker's program
	Spec    *worker.Spec  `json:"spec,omitempty"`
	Tell    *worker.Order `json:"tell,omitempty"`
}

// A signedOrder is an order in the form in which it is sent.
type signedOrder struct {
	Order     json.RawMessage `json:"order"`
	Signature []byte          `json:"signature"` // of the order's bytes
}

// An answer is an agent's reply to an order.
type answer struct {
	Refused string `json:"refused,omitempty"` // why it does not obey; empty: it obeys
	// Busy reports that another run has the agent.
	Busy bool `json:"busy,omitempty"`
}

// sign makes an order ready to be sent.
func sign(o order, key nkeys.KeyPair) ([]byte, error) {
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

// doorkeeper accepts the orders that an agent may obey: signed with the controller's key, for this
// agent and this session, each order once.
type doorkeeper struct {
	agent, session string
	key            nkeys.KeyPair     // public
	last           map[string]uint64 // the highest number accepted, by run
}

// mostRuns bounds a session's runs. A session must remember each run whose orders it accepted.
const mostRuns = 100_000

func newDoorkeeper(agent, session, publicKey string) (*doorkeeper, error) {
	key, err := nkeys.FromPublicKey(publicKey)
	if err != nil {
		return nil, fmt.Errorf("the key that orders are signed with: %w", err)
	}
	return &doorkeeper{agent: agent, session: session, key: key, last: map[string]uint64{}}, nil
}

// open returns the order in a message, or why the order is refused.
func (d *doorkeeper) open(message []byte) (*order, error) {
	var signed signedOrder
	if err := json.Unmarshal(message, &signed); err != nil || len(signed.Order) == 0 {
		return nil, errors.New("it is not an order")
	}
	if err := d.key.Verify(signed.Order, signed.Signature); err != nil {
		return nil, errors.New("it is not signed by this fleet's controller")
	}
	var o order
	if err := json.Unmarshal(signed.Order, &o); err != nil {
		return nil, fmt.Errorf("it is signed, but cannot be read: %w", err)
	}
	switch {
	case o.Agent != d.agent:
		return nil, fmt.Errorf("it is for the agent %q", o.Agent)
	case o.Session != d.session:
		return nil, errors.New("it is for an earlier session of this agent")
	case o.Run == "":
		return nil, errors.New("it names no run")
	case o.Number <= d.last[o.Run]:
		return nil, fmt.Errorf("it was sent before: its number in the run is %d, and order %d was obeyed", o.Number, d.last[o.Run])
	case len(d.last) >= mostRuns && d.last[o.Run] == 0:
		return nil, fmt.Errorf("this session has had %d runs: start the agent again", mostRuns)
	}
	d.last[o.Run] = o.Number
	return &o, nil
}

// answers receives the answers to orders, with one subscription for all orders.
type answers struct {
	inbox string

	guard   sync.Mutex // guards the fields below
	last    uint64
	waiting map[string]chan *nats.Msg
}

func hearAnswers(conn *nats.Conn) (*answers, error) {
	a := &answers{inbox: conn.NewInbox(), waiting: map[string]chan *nats.Msg{}}
	_, err := conn.Subscribe(a.inbox+".*", a.hear)
	return a, err
}

func (a *answers) hear(m *nats.Msg) {
	a.guard.Lock()
	to := a.waiting[m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]]
	a.guard.Unlock()
	if to == nil {
		return // nobody waits for it any more
	}
	select {
	case to <- m:
	default: // an answer has already come
	}
}

// An expected is an answer that has not come yet.
type expected struct {
	from  *answers
	token string
	inbox string
	came  chan *nats.Msg
}

// expect registers an answer to wait for, until forget.
func (a *answers) expect() *expected {
	a.guard.Lock()
	defer a.guard.Unlock()
	a.last++
	e := &expected{from: a, token: strconv.FormatUint(a.last, 36), came: make(chan *nats.Msg, 1)}
	e.inbox = a.inbox + "." + e.token
	a.waiting[e.token] = e.came
	return e
}

func (e *expected) forget() {
	e.from.guard.Lock()
	defer e.from.guard.Unlock()
	delete(e.from.waiting, e.token)
}

// noResponders is the status of a server's answer to a request that nobody receives.
const noResponders = "503"

func (e *expected) await(ctx context.Context) ([]byte, error) {
	select {
	case m := <-e.came:
		if len(m.Data) == 0 && m.Header.Get("Status") == noResponders {
			return nil, nats.ErrNoResponders
		}
		return m.Data, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
