package held

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
)

// A site is a server of WebSockets that counts what happens.
type site struct {
	accepted, received, sent, pongs atomic.Int64
}

// socket serves a WebSocket with a function that gets each message, and its number on the stream.
func (s *site) socket(answer func(ctx context.Context, c *websocket.Conn, number int64, message []byte) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		s.accepted.Add(1)
		for number := int64(1); ; number++ {
			_, message, err := c.Read(r.Context())
			if err != nil {
				return
			}
			s.received.Add(1)
			if answer(r.Context(), c, number, message) != nil {
				return
			}
		}
	}
}

func (s *site) echo(ctx context.Context, c *websocket.Conn, _ int64, message []byte) error {
	s.sent.Add(1)
	return c.Write(ctx, websocket.MessageText, message)
}

// serve serves a handler, and returns the definition of a client that holds streams to it.
func serve(t *testing.T, handler http.Handler, h service.Holding) *service.Definition {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	h.InFlight = max(h.InFlight, 1)
	address := server.Listener.Addr().String()
	return &service.Definition{
		Wire: service.WebSocket, Network: "tcp", Address: address, Authority: address, Timeout: time.Minute,
		Requests: []service.Request{{Method: http.MethodGet, Path: "/", Body: []byte("hello")}}, Holding: &h,
	}
}

func open(t *testing.T, d *service.Definition, streams int) *Client {
	t.Helper()
	client, err := Open(t.Context(), service.Plan{Definition: d, Connections: streams, Callers: streams * d.Holding.InFlight, Keep: true, Dialer: &conn.Dialer{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client.(*Client)
}

// hold gives callers their streams.
func hold(t *testing.T, c *Client, callers int) []*service.Answer {
	t.Helper()
	answers := make([]*service.Answer, callers)
	for i := range answers {
		answers[i] = &service.Answer{}
		var request *service.Request
		if i%c.CallersPerStream() == 0 {
			request = &c.Requests[0]
		}
		if err := c.Hold(t.Context(), i, request, answers[i]); err != nil {
			t.Fatal(err)
		}
	}
	return answers
}

// callEach makes n calls of each caller at the same time, with a message of its own, and returns the failed ones.
func callEach(t *testing.T, c *Client, answers []*service.Answer, n int, check func(caller, call int, a *service.Answer) error) (failed []error) {
	t.Helper()
	var running sync.WaitGroup
	var guard sync.Mutex
	for i, a := range answers {
		running.Go(func() {
			for call := range n {
				request := c.Requests[0]
				request.Body = fmt.Appendf(nil, `{"id":"%d-%d","text":"%s"}`, i, call, request.Body)
				err := c.Call(t.Context(), &request, a)
				if err == nil && check != nil {
					err = check(i, call, a)
				}
				if err != nil {
					guard.Lock()
					failed = append(failed, err)
					guard.Unlock()
				}
			}
		})
	}
	running.Wait()
	return failed
}

func isOwn(caller, call int, a *service.Answer) error {
	if want := fmt.Sprintf(`{"id":"%d-%d",`, caller, call); !strings.HasPrefix(string(a.Body), want) || a.Status != http.StatusSwitchingProtocols || a.Bytes != int64(len(a.Body)) {
		return fmt.Errorf("caller %d, call %d: got %s, status %d, %d bytes", caller, call, a.Body, a.Status, a.Bytes)
	}
	return nil
}

// Each caller gets its own answers, with several messages in flight on a stream, and the server's
// counts are the client's.
func TestEchoCountsAreTheServers(t *testing.T) {
	t.Parallel()
	for _, inFlight := range []int{1, 4} {
		var s site
		c := open(t, serve(t, s.socket(s.echo), service.Holding{Exchange: service.Answers, InFlight: inFlight}), 5)
		if failed := callEach(t, c, hold(t, c, 5*inFlight), 100, isOwn); len(failed) > 0 {
			t.Fatalf("%d in flight: %d calls failed: %v", inFlight, len(failed), failed[0])
		}
		all, want := c.Streams(), int64(5*inFlight*100)
		if all.Sent != want || all.Received != want || s.received.Load() != want || s.sent.Load() != want || all.Held != 5 || s.accepted.Load() != 5 || all.Reopened != 0 {
			t.Errorf("%d in flight: %+v; the server accepted %d, received %d and sent %d; want 5 streams and %d messages", inFlight, all, s.accepted.Load(), s.received.Load(), s.sent.Load(), want)
		}
	}
}

// Answers that come in another order are found by what they have in common with their message.
func TestAnswersAreMatched(t *testing.T) {
	t.Parallel()
	var s site
	var before []byte // one stream only
	c := open(t, serve(t, s.socket(func(ctx context.Context, c *websocket.Conn, number int64, message []byte) error {
		if number%2 == 1 {
			before = message
			return nil
		}
		_ = s.echo(ctx, c, number, message) // the later message is answered first
		return s.echo(ctx, c, number, before)
	}), service.Holding{Exchange: service.Answers, InFlight: 2, Match: "json(.id)"}), 1)
	if failed := callEach(t, c, hold(t, c, 2), 100, isOwn); len(failed) > 0 {
		t.Fatalf("%d calls failed: %v", len(failed), failed[0])
	}
	if n := c.Streams().Unmatched; n > 0 {
		t.Errorf("%d messages were not matched", n)
	}
}

// A server that drops the 50th message of each stream: with --match the streams go on, and as many calls
// fail as messages were dropped. Without, a stream ends, since a late answer would be taken for another.
func TestDroppedAnswersAreFound(t *testing.T) {
	t.Parallel()
	for match, reopened := range map[string]int64{"json(.id)": 0, "": 4} {
		var s site
		d := serve(t, s.socket(func(ctx context.Context, c *websocket.Conn, number int64, message []byte) error {
			if number == 50 {
				return nil
			}
			return s.echo(ctx, c, number, message)
		}), service.Holding{Exchange: service.Answers, Match: match})
		d.Timeout = 3 * time.Second
		c := open(t, d, 4)
		failed := callEach(t, c, hold(t, c, 4), 80, isOwn)
		if len(failed) != 4 || failure.Of(failed[0]) != failure.Deadline || !strings.Contains(failed[0].Error(), "no answer came within 3s") {
			t.Errorf("match %q: %d of 320 calls failed: %v; want 4", match, len(failed), failed)
		}
		if all := c.Streams(); all.Reopened != reopened || all.Sent != s.received.Load() || all.Received != s.sent.Load() || s.received.Load() != 320 {
			t.Errorf("match %q: %+v; the server received %d and sent %d", match, all, s.received.Load(), s.sent.Load())
		}
	}
}

func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	for !is() {
		select {
		case <-t.Context().Done():
			t.Fatal("it never came about")
		case <-time.After(time.Millisecond):
		}
	}
}

// A feed serves messages without being asked.
func (s *site) feed(feed func(ctx context.Context, send func(text string) error) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		s.accepted.Add(1)
		if err := feed(r.Context(), func(text string) error {
			s.sent.Add(1)
			return c.Write(r.Context(), websocket.MessageText, []byte(text))
		}); err == nil {
			_ = c.Close(websocket.StatusNormalClosure, "that was all")
		}
	}
}

// A server that closes each stream after 100 messages: the streams are opened again, no call fails,
// and the numbers of both sides agree.
func TestStreamsAreReopened(t *testing.T) {
	t.Parallel()
	var s site
	c := open(t, serve(t, s.feed(func(_ context.Context, send func(string) error) error {
		for n := range 100 {
			if err := send(fmt.Sprintf(`{"seq":%d}`, n)); err != nil {
				return err
			}
		}
		return nil
	}), service.Holding{Exchange: service.Receive, Sequence: "json(.seq)"}), 3)
	answers := hold(t, c, 3)
	if failed := callEach(t, c, answers, 1, nil); len(failed) > 0 { // from now on, no message is dropped
		t.Fatal(failed[0])
	}
	if failed := callEach(t, c, answers, 1000, nil); len(failed) > 0 {
		t.Fatalf("%d calls failed: %v", len(failed), failed[0])
	}
	all := c.Streams()
	if all.Reopened != s.accepted.Load()-3 || all.Reopened < 3*9 || all.ClosedNS <= 0 || all.Sequence.Missing != 0 || all.Sequence.Duplicate != 0 {
		t.Errorf("%+v, sequence %+v; the server accepted %d", all, all.Sequence, s.accepted.Load())
	}
	if len(all.Ends) != 1 || all.Ends[0].Count != all.Reopened || all.Ends[0].Code != "close code 1000 (normal closure)" || !strings.Contains(all.Ends[0].Example, "that was all") {
		t.Errorf("ends %+v", all.Ends)
	}
}

// A server that skips every thousandth number: exactly these are missing.
func TestMissingNumbersAreFound(t *testing.T) {
	t.Parallel()
	var s site
	c := open(t, serve(t, s.feed(func(ctx context.Context, send func(string) error) error {
		for n := 1; n <= 10_000; n++ {
			if n%1000 == 0 {
				continue
			}
			if err := send(fmt.Sprintf(`{"seq":%d}`, n)); err != nil {
				return err
			}
		}
		_ = send(`{"seq":10001}`)
		<-ctx.Done()
		return ctx.Err()
	}), service.Holding{Exchange: service.Receive, Sequence: "json(.seq)"}), 2)
	hold(t, c, 2) // nobody waits yet, so the messages are only counted
	waitFor(t, func() bool { return c.Streams().Received == 2*(10_000-10+1) })
	if q := c.Streams().Sequence; q.Missing != 20 || q.Streams != 2 || q.Duplicate != 0 || q.Reordered != 0 {
		t.Errorf("%+v: want 20 missing on 2 streams", q)
	}
}

// Gaps between messages are never shorter than the server's, but for the first ones after a late one.
// The latency counts from the instant in the message.
func TestMessageTimes(t *testing.T) {
	t.Parallel()
	const gap = 5 * time.Millisecond
	var s site
	c := open(t, serve(t, s.feed(func(_ context.Context, send func(string) error) error {
		for {
			time.Sleep(gap)
			if err := send(fmt.Sprintf(`{"at":%q}`, time.Now().Add(-time.Hour).Format(time.RFC3339Nano))); err != nil {
				return err
			}
		}
	}), service.Holding{Exchange: service.Receive}), 1)
	answers := hold(t, c, 1)
	var sum time.Duration
	const calls = 50
	callEach(t, c, answers, calls+1, func(_, call int, a *service.Answer) error {
		if len(a.Times) != 1 {
			t.Errorf("times %v", a.Times)
		} else if call > 0 {
			sum += a.Times[0]
		}
		return nil
	})
	if sum < (calls-1)*gap { // a message that comes late shortens only the next gap
		t.Errorf("%d gaps of at least %v took %v", calls, gap, sum)
	}
	dated := *c.Definition
	dated.Holding = &service.Holding{Exchange: service.Receive, InFlight: 1, SentAt: "json(.at)"}
	c = open(t, &dated, 1)
	callEach(t, c, hold(t, c, 1), 1, func(_, _ int, a *service.Answer) error {
		if len(a.Times) != 1 || a.Times[0] < time.Hour || a.Times[0] > 2*time.Hour {
			t.Errorf("the latency is %v: want an hour", a.Times)
		}
		return nil
	})
}

// A message in which an expression finds nothing is counted, and so is one that answers nothing.
func TestUnusableMessages(t *testing.T) {
	t.Parallel()
	var s site
	c := open(t, serve(t, s.socket(func(ctx context.Context, c *websocket.Conn, number int64, message []byte) error {
		_ = c.Write(ctx, websocket.MessageText, []byte("not JSON"))
		return s.echo(ctx, c, number, message)
	}), service.Holding{Exchange: service.Answers, Match: "json(.id)"}), 1)
	if failed := callEach(t, c, hold(t, c, 1), 10, isOwn); len(failed) > 0 {
		t.Fatal(failed[0])
	}
	if all := c.Streams(); all.Unread != 10 || all.Unmatched != 10 {
		t.Errorf("%+v: want 10 unread and 10 unmatched", all)
	}
}

// The reasons for an end are told in words. Each of these ends a stream while a call waits for its answer.
func TestCloseCodes(t *testing.T) {
	t.Parallel()
	for code, want := range map[websocket.StatusCode]struct {
		reason string
		class  failure.Class
	}{
		websocket.StatusGoingAway:     {"close code 1001 (going away)", failure.Closed},
		websocket.StatusInternalError: {"close code 1011 (internal error)", failure.Application},
		4001:                          {"close code 4001 (a code of the service's own)", failure.Application},
		0:                             {"the connection was closed without a close frame", failure.Closed},
	} {
		var s site
		c := open(t, serve(t, s.socket(func(_ context.Context, c *websocket.Conn, _ int64, _ []byte) error {
			if code == 0 {
				return c.CloseNow()
			}
			_ = c.Close(code, "so it is")
			return errors.New("closed")
		}), service.Holding{Exchange: service.Answers}), 1)
		failed := callEach(t, c, hold(t, c, 1), 1, nil)
		if len(failed) != 1 {
			t.Fatalf("%d: failed %v", code, failed)
		}
		end, is := errors.AsType[*service.EndError](failed[0])
		if !is || end.Reason != want.reason || end.Class != want.class || code != 0 && end.Detail != "so it is" {
			t.Errorf("%d: %v (%+v), want %+v", code, failed[0], end, want)
		}
	}
}

// A server that sends a message without end, and one that sends many at once, cannot fill the memory.
func TestLongMessagesEndTheStream(t *testing.T) {
	t.Parallel()
	var s site
	c := open(t, serve(t, s.feed(func(_ context.Context, send func(string) error) error {
		return send(strings.Repeat("x", maxMessageBytes+1))
	}), service.Holding{Exchange: service.Receive}), 1)
	failed := callEach(t, c, hold(t, c, 1), 1, nil)
	if len(failed) != 1 || !strings.Contains(failed[0].Error(), "a message has more than 16777216 bytes") {
		t.Errorf("failed %v", failed)
	}
}

// Pings are answered while no call runs.
func TestPingsAreAnswered(t *testing.T) {
	t.Parallel()
	var s site
	c := open(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		ctx := c.CloseRead(r.Context())
		if c.Ping(ctx) == nil {
			s.pongs.Add(1)
		}
		<-ctx.Done()
	}), service.Holding{Exchange: service.Answers}), 1)
	hold(t, c, 1)
	waitFor(t, func() bool { return s.pongs.Load() == 1 })
}

// While the server refuses, calls fail with the reason, at the pace of the attempts.
func TestReopeningFails(t *testing.T) {
	t.Parallel()
	var s site
	var refuse atomic.Bool
	socket := s.socket(func(_ context.Context, c *websocket.Conn, _ int64, _ []byte) error {
		refuse.Store(true)
		return c.Close(websocket.StatusTryAgainLater, "")
	})
	c := open(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse.Load() {
			http.Error(w, "too many", http.StatusTooManyRequests)
			return
		}
		socket(w, r)
	}), service.Holding{Exchange: service.Answers}), 1)
	failed := callEach(t, c, hold(t, c, 1), 4, nil)
	if len(failed) != 4 || !strings.Contains(failed[0].Error(), "1013 (try again later)") || !strings.Contains(failed[3].Error(), "429 Too Many Requests") {
		t.Errorf("failed %v", failed)
	}
	if all := c.Streams(); all.FailedOpenings < 3 || all.Reopened != 0 {
		t.Errorf("%+v", all)
	}
}
