package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/wire/service"
)

func TestWaiting(t *testing.T) {
	refused, reset, late := errors.New("refused"), fmt.Errorf("read: %w", syscall.ECONNRESET), fmt.Errorf("call: %w", context.DeadlineExceeded)
	for _, c := range []struct {
		name   string
		limit  time.Duration
		failed []error // of the first calls; later ones succeed
		calls  int
		err    error
		note   string
	}{
		{"at once", 0, nil, 1, nil, ""},
		{"not asked to wait", 0, []error{refused, nil}, 1, refused, ""},
		{"reset once", 0, []error{reset}, 2, nil, "the first connection was reset: calling once more\n"},
		{"reset twice", 0, []error{reset, reset}, 2, reset, "calling once more\n"},
		{"late once", 0, []error{late}, 2, nil, "the first call was late: calling once more\n"},
		{"late twice", 0, []error{late, late}, 2, late, "calling once more\n"},
		{"starts in time", 30 * time.Second, []error{refused, refused, reset}, 4, nil, "waiting for the service, up to 30s: refused\n"},
		{"starts too late", time.Second, []error{refused, refused, refused, refused, refused, refused, refused}, 6, refused, "up to 1s: refused\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var notes strings.Builder
				w, calls := Waiting{Until: time.Now().Add(c.limit), Notes: &notes}, 0
				err := w.Do(t.Context(), func() error {
					if calls++; calls <= len(c.failed) {
						return c.failed[calls-1]
					}
					return nil
				})
				if calls != c.calls || !errors.Is(err, c.err) || !strings.HasSuffix(notes.String(), c.note) || strings.Count(notes.String(), "\n") > 1 {
					t.Errorf("%d calls, %v, %q; want %d, %v, %q", calls, err, &notes, c.calls, c.err, c.note)
				}
			})
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	w, calls := Waiting{Until: time.Now().Add(time.Hour), Notes: &strings.Builder{}}, 0
	if err := w.Do(ctx, func() error { calls++; cancel(); return refused }); calls != 1 || !errors.Is(err, refused) {
		t.Errorf("cancelled: %d calls, %v", calls, err)
	}
}

// A server that resets its first connections is called again.
func TestWaitingForServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(&resetting{Listener: listener}) }) // ends with Close
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	d := &service.Definition{
		Wire: service.HTTP1, Network: "tcp", Address: listener.Addr().String(), Authority: "a.test",
		Requests: []service.Request{{Method: http.MethodGet, Path: "/"}}, Expect: []string{"status == 404"},
	}
	var notes strings.Builder
	w := Waiting{Until: time.Now(), Notes: &notes}
	call := FirstCall{Definition: d, Request: &d.Requests[0], Notes: &notes, Limit: time.Minute}
	if err := w.Do(t.Context(), func() error { return call.Try(t.Context()) }); err != nil || !strings.Contains(notes.String(), "calling once more\nfirst call: 404") {
		t.Errorf("%v, %q", err, &notes)
	}
}

// A resetting listener resets its first connection when a request arrives.
type resetting struct {
	net.Listener
	done bool
}

func (l *resetting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil || l.done {
		return conn, err
	}
	l.done = true
	_, _ = conn.Read(make([]byte, 1))
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
	return l.Listener.Accept()
}
