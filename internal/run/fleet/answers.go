package fleet

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// answers hears the answers to orders, with one subscription for all of them.
type answers struct {
	inbox string

	guard   sync.Mutex // of what follows
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
	default: // it has come already
	}
}

// An expected is an answer that has not come yet.
type expected struct {
	from  *answers
	token string
	inbox string
	came  chan *nats.Msg
}

// expect waits for an answer from now on, until it is forgotten.
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

// noResponders is the status of the message that a server sends where nobody hears a request.
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
