package hub

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// serverLog receives the log of nats-server. It writes warnings and errors to the hub's log. It
// keeps a fatal error for fatalError, and does not end the process.
type serverLog struct {
	mu   sync.Mutex
	to   io.Writer
	gone error
}

var _ server.Logger = (*serverLog)(nil)

func (*serverLog) Noticef(string, ...any) {}
func (*serverLog) Debugf(string, ...any)  {}
func (*serverLog) Tracef(string, ...any)  {}

func (l *serverLog) Warnf(format string, v ...any)  { l.write("warning", format, v) }
func (l *serverLog) Errorf(format string, v ...any) { l.write("error", format, v) }

func (l *serverLog) Fatalf(format string, v ...any) {
	l.mu.Lock()
	l.gone = errors.Join(l.gone, fmt.Errorf(format, v...))
	l.mu.Unlock()
}

func (l *serverLog) fatalError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone
}

func (l *serverLog) write(level, format string, v []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.to == nil {
		return
	}
	_, _ = fmt.Fprintf(l.to, "%s hub %s: %s\n", time.Now().UTC().Format(time.RFC3339), level, fmt.Sprintf(format, v...))
}
