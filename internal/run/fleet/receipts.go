package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	idHeader = "Wl-Id" // header that identifies a message, also if it is sent again
	// resendPeriod is the time after which a message is sent again.
	resendPeriod = 2 * time.Second
)

// receipts sends messages that must not be lost: each is sent again until its receiver says that he
// has it. So nothing is lost with a connection, a hub or a disk, and no server has to store anything.
type receipts struct {
	guard   sync.Mutex
	waiting map[string]chan struct{} // by the message's identifier
}

// handle handles a receipt.
func (r *receipts) handle(m *nats.Msg) {
	r.guard.Lock()
	defer r.guard.Unlock()
	if known := r.waiting[string(m.Data)]; known != nil {
		close(known)
		delete(r.waiting, string(m.Data))
	}
}

// send sends a message, and waits for its receipt.
func (r *receipts) send(ctx context.Context, conn *nats.Conn, m *nats.Msg, id string) error {
	received := make(chan struct{})
	r.guard.Lock()
	if r.waiting == nil {
		r.waiting = map[string]chan struct{}{}
	}
	r.waiting[id] = received
	r.guard.Unlock()
	defer func() {
		r.guard.Lock()
		defer r.guard.Unlock()
		delete(r.waiting, id)
	}()
	m.Header.Set(idHeader, id)
	again := time.NewTicker(resendPeriod)
	defer again.Stop()
	for {
		// Other errors pass, such as a full buffer while the connection is being made again.
		if err := conn.PublishMsg(m); errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrConnectionClosed) {
			return err
		}
		select {
		case <-received:
			return nil
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("the controller did not say that it has the message: %w", ctx.Err())
		}
	}
}

// seenMessages knows the messages of one worker that have come.
type seenMessages map[string]bool

// isNew reports whether a message has not come before.
func (s seenMessages) isNew(id string) bool {
	if s[id] {
		return false
	}
	s[strings.Clone(id)] = true
	return true
}
