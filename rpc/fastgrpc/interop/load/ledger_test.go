package load

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/metadata"
)

// A ledger counts how often a server makes each call, so that calls are found that were made twice,
// or that ended well without having been made. A nil ledger counts nothing.
type ledger struct {
	mu   sync.Mutex
	made []uint8 // by the number of the call
}

const callKey = "soak-call"

// begin gives a call its number, which its metadata tell the server.
func (l *ledger) begin(ctx context.Context) (context.Context, int) {
	if l == nil {
		return ctx, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made = append(l.made, 0)
	id := len(l.made) - 1
	return metadata.AppendToOutgoingContext(ctx, callKey, strconv.Itoa(id)), id
}

// count counts a call at its server. Handlers call it.
func (l *ledger) count(ctx context.Context) {
	if l == nil {
		return
	}
	md, _ := metadata.FromIncomingContext(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range md[callKey] {
		if id, err := strconv.Atoi(text); err == nil && id < len(l.made) {
			l.made[id]++
		}
	}
}

// check checks a call that has ended. answered means that its handler has ended it.
func (l *ledger) check(id int, answered bool) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.made[id]; n > 1 || answered && n == 0 {
		return fmt.Errorf("the call was made %d times, and answered: %v", n, answered)
	}
	return nil
}

// doubled returns the number of calls, and of those that were made more than once.
func (l *ledger) doubled() (calls, doubled int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.made {
		if n > 1 {
			doubled++
		}
	}
	return len(l.made), doubled
}

// mostInFlight bounds the bytes of all messages that a soak has under way. Both ends are in this
// process, with several copies of each message, and the race detector takes as much again.
const mostInFlight = 64 << 20

// A gate lets calls pass while their messages fit into mostInFlight, in the order in which they
// come. A nil gate lets all calls pass.
type gate struct{ room *semaphore.Weighted }

func newGate() *gate { return &gate{semaphore.NewWeighted(mostInFlight)} }

// enter waits until there is room for a call with messages of that many bytes.
func (g *gate) enter(bytes int) (leave func()) {
	if g == nil {
		return func() {}
	}
	bytes = min(max(1, bytes), mostInFlight)
	if err := g.room.Acquire(context.Background(), int64(bytes)); err != nil {
		panic(err) // the context has no end
	}
	return func() { g.room.Release(int64(bytes)) }
}

// openFiles returns the number of this process's open files, or -1 where the system does not tell.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(entries)
}
