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

// An orderVerb says what an order asks of an agent.
type orderVerb string

const (
	claimAgent   orderVerb = "claim"   // lease the agent to the run
	renewAgent   orderVerb = "renew"   // extend the lease
	releaseAgent orderVerb = "release" // end the run's workers, and end the lease
	startVerb    orderVerb = "start"   // startVerb a worker
	tellVerb     orderVerb = "tell"    // send the worker a control
	stopVerb     orderVerb = "stop"    // end the worker's input
	killVerb     orderVerb = "kill"    // end the worker at once
)

// A controllerOrder is a controller's message to an agent.
type controllerOrder struct {
	Agent   string    `json:"agent"`
	Session string    `json:"session"` // of the agent, from its card: after a restart it has another session
	Run     string    `json:"run"`     // the controller's run
	Number  uint64    `json:"number"`  // grows with each order of the run to the session
	Do      orderVerb `json:"do"`

	LeaseNS int64  `json:"lease_ns,omitempty"` // claim and renew
	Worker  string `json:"worker,omitempty"`   // start, tell, stop and kill: the worker's name in the run
	// Program and Spec belong to start, Tell to tell.
	Program string               `json:"program,omitempty"` // the hash of the worker's program
	Spec    *worker.Spec         `json:"spec,omitempty"`
	Tell    *worker.ControlOrder `json:"tell,omitempty"`
}

// A signedOrder is an encoded order with its signature.
type signedOrder struct {
	Order     json.RawMessage `json:"order"`
	Signature []byte          `json:"signature"` // of the order's bytes
}

// An orderAnswer is an agent's reply to an order.
type orderAnswer struct {
	Refused string `json:"refused,omitempty"` // why the agent refuses the order; empty: it does not
	// Busy reports that the agent is leased to another run.
	Busy bool `json:"busy,omitempty"`
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

// An orderChecker accepts only orders that are signed with the controller's key and are for this
// agent and this session. It accepts each order only once.
type orderChecker struct {
	agent, session string
	key            nkeys.KeyPair     // public
	last           map[string]uint64 // the highest accepted order number of each run
}

// maxRunsPerSession bounds the runs of a session, since the session remembers all of them.
const maxRunsPerSession = 100_000

func newOrderChecker(agent, session, publicKey string) (*orderChecker, error) {
	key, err := nkeys.FromPublicKey(publicKey)
	if err != nil {
		return nil, fmt.Errorf("read the key that signs orders: %w", err)
	}
	return &orderChecker{agent: agent, session: session, key: key, last: map[string]uint64{}}, nil
}

// checkOrder returns the order in a message, or the reason to refuse the order.
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

// An answerReceiver receives the answers to all orders with one subscription.
type answerReceiver struct {
	inbox string

	guard   sync.Mutex // guards the fields below
	last    uint64
	waiting map[string]chan *nats.Msg
}

func receiveAnswers(conn *nats.Conn) (*answerReceiver, error) {
	a := &answerReceiver{inbox: conn.NewInbox(), waiting: map[string]chan *nats.Msg{}}
	_, err := conn.Subscribe(a.inbox+".*", a.deliver)
	return a, err
}

func (a *answerReceiver) deliver(m *nats.Msg) {
	a.guard.Lock()
	to := a.waiting[m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]]
	a.guard.Unlock()
	if to == nil {
		return // the sender no longer waits for this answer
	}
	select {
	case to <- m:
	default: // an earlier answer has arrived
	}
}

// A pendingAnswer waits for the answer to one order.
type pendingAnswer struct {
	from  *answerReceiver
	token string
	inbox string
	came  chan *nats.Msg
}

// register makes a pendingAnswer. The caller must unregister it.
func (a *answerReceiver) register() *pendingAnswer {
	a.guard.Lock()
	defer a.guard.Unlock()
	a.last++
	e := &pendingAnswer{from: a, token: strconv.FormatUint(a.last, 36), came: make(chan *nats.Msg, 1)}
	e.inbox = a.inbox + "." + e.token
	a.waiting[e.token] = e.came
	return e
}

func (e *pendingAnswer) unregister() {
	e.from.guard.Lock()
	defer e.from.guard.Unlock()
	delete(e.from.waiting, e.token)
}

// noRespondersStatus is the status in a NATS server's reply if nobody receives a request.
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
