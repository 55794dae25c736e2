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

// Bounds on what an agent tells of one worker.
const (
	maxMessageBytes     = 512 << 10 // of a part; a NATS server's default limit is 1 MiB
	maxKeptMessageBytes = 64 << 20  // of the parts of a message
	maxSampleFile       = 2 << 30
	maxParts            = (maxSampleFile + 8*maxKeptMessageBytes) / maxMessageBytes
	maxIDBytes          = 256 // of a part's identifier
)

// seenMessages knows the parts of one worker's messages that have come.
type seenMessages map[string]bool

// isNew reports whether a part is wanted: it has not come before, and maxParts is not reached.
func (s seenMessages) isNew(id string) bool {
	if s[id] || len(s) >= maxParts || len(id) > maxIDBytes {
		return false
	}
	s[strings.Clone(id)] = true
	return true
}

// Bounds on what an agent sends in a second besides the parts that its controller awaits. An honest
// agent sends some KB, and a part of each of its workers again if a receipt was lost.
const (
	floodBytes    = 16 << 20
	floodMessages = 20_000
)

// A floodWatch notices that an agent sends too much: the hub would drop the controller's connection
// when that cannot take all of it.
type floodWatch struct {
	since           time.Time
	bytes, messages int
}

// isOn counts a message of this size, and reports whether there were too many in the last second.
func (f *floodWatch) isOn(size int) bool {
	if now := time.Now(); now.Sub(f.since) >= time.Second {
		*f = floodWatch{since: now}
	}
	f.bytes += size
	f.messages++
	return f.bytes > floodBytes || f.messages > floodMessages
}

const (
	// maxBytesPerSecond limits messages about a running worker: more could disturb the trial.
	maxBytesPerSecond = 1000
	// maxSilence is the time without any message after which an agent sends progress.
	maxSilence = 1200 * time.Millisecond
)

// A byteBudget limits how many bytes per second an agent sends.
type byteBudget struct {
	guard  sync.Mutex
	left   int
	filled time.Time // when left was last updated
	told   time.Time // when the last message was sent
}

func newBudget() *byteBudget { return &byteBudget{left: maxBytesPerSecond, filled: time.Now()} }

// trySpend subtracts a message's bytes from the budget. It returns false if too few bytes are left.
func (b *byteBudget) trySpend(bytes int) bool {
	b.guard.Lock()
	defer b.guard.Unlock()
	now := time.Now()
	b.left = min(maxBytesPerSecond, b.left+int(now.Sub(b.filled).Seconds()*maxBytesPerSecond))
	b.filled = now
	if bytes > b.left {
		return false
	}
	b.left -= bytes
	b.told = now
	return true
}

// isSilent reports whether the last message is older than maxSilence.
func (b *byteBudget) isSilent() bool {
	b.guard.Lock()
	defer b.guard.Unlock()
	return time.Since(b.told) > maxSilence
}
