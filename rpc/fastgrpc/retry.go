package fastgrpc

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/fastgrpc/internal/connect"
	"wirelab.dev/rpc/fastgrpc/internal/ending"
)

// tries counts the attempts of a call and decides, as grpc-go does, whether to make another
// one (gRFC A6): at once if the server did not process the first, otherwise by the service
// config's retry policy.
type tries struct {
	attempts      int  // that have ended
	retries       int  // by the policy
	sincePushback int  // of these, since the server last said when to come back
	transparent   bool // the attempt is made because the server did not process the one before
}

// An attemptEnd describes the end of a failed attempt, which decides whether there is another.
type attemptEnd struct {
	final       bool // there is none: the balancer dropped the call, or too much was sent to send it again
	unprocessed bool
	answered    bool
	pushback    []string // the server's values
}

// read takes the end of an attempt that had a stream and has ended.
func (e *attemptEnd) read(u *clientCall) {
	e.unprocessed, e.answered = u.unprocessed, u.answered
	for _, f := range u.trailer {
		if f.Name == wire.FieldPushback {
			e.pushback = append(e.pushback, f.Value)
		}
	}
}

// next waits and returns nil if the call must make another attempt. Otherwise it returns the
// call's error.
func (t *tries) next(ctx context.Context, c *Client, info *callInfo, e *attemptEnd, err error) error {
	t.attempts++
	t.transparent = false
	switch {
	case e.final || info.on != nil:
		return err
	case e.unprocessed && t.attempts == 1:
		t.transparent = true
		return nil
	case c.opts.disableRetry || e.answered || info.retry == nil && e.pushback == nil:
		return err
	}
	pushback := time.Duration(-1)
	if len(e.pushback) > 0 {
		ms, bad := strconv.Atoi(e.pushback[0])
		if bad != nil || ms < 0 || len(e.pushback) > 1 {
			info.throttle.Failed()
			return err
		}
		pushback = time.Duration(ms) * time.Millisecond
	}
	policy := info.retry
	switch {
	case policy == nil || !slices.Contains(policy.RetryableStatusCodes, status.Code(err)) || info.throttle.Failed():
		return err
	case t.retries+1 >= policy.MaxAttempts:
		return fmt.Errorf("max retries exhausted: failed after %d attempts: %w", t.retries+1, err)
	case pushback >= 0:
		t.sincePushback = 0
	default:
		pushback = policy.Backoff(t.sincePushback)
		t.sincePushback++
	}
	c.channel.beginWait()
	defer c.channel.endWait()
	if !connect.Sleep(ctx, pushback, nil) {
		return status.FromContextError(ctx.Err()).Err()
	}
	t.retries++
	return nil
}

// reportDone reports the end of an attempt that had a stream to the balancer.
func (c *clientCall) reportDone(err error) {
	if c.picked == nil {
		return
	}
	trailer := toMetadata(c.trailer)
	c.picked(balancer.DoneInfo{
		Err: err, Trailer: trailer, BytesSent: true, BytesReceived: c.gotHeader, ServerLoad: loadReport(trailer),
	})
	c.picked = nil
}

// loadReport returns the ORCA load report in a trailer, or nil. A program whose balancer
// reads such reports links their type in; this package does not import it.
func loadReport(trailer metadata.MD) any {
	values := trailer[wire.FieldLoad]
	if len(values) != 1 {
		return nil
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName("xds.data.orca.v3.OrcaLoadReport")
	if err != nil {
		return nil
	}
	report := kind.New().Interface()
	if proto.Unmarshal([]byte(values[0]), report) != nil {
		return nil
	}
	return report
}

// undecided reports whether a stream's attempt has failed without an answer, and nobody
// has decided yet whether there is another one. The connection's lock is held.
func (c *clientCall) undecided() bool {
	return c.end.Done() && c.end.Kind != ending.Succeeded && !c.answered && !c.decided
}

// resend sends the kept messages on a new attempt, with its connection's lock held.
func (s *clientStream) resend(cc *clientConn, c *clientCall) {
	for _, b := range s.sent.Messages {
		b.Retain()
		cc.h2.SendData(&c.h2, batchio.Payload{Data: b.Data, Owner: b}, false)
	}
	if s.sentAll {
		cc.h2.CloseSend(&c.h2)
	}
}

// retry makes another attempt after c, which has failed. It returns false if there is
// none; then c has the stream's final ending.
func (s *clientStream) retry(c *clientCall) bool {
	s.retryMu.Lock()
	defer s.retryMu.Unlock()
	if s.current.Load() != c {
		return true // another goroutine has retried
	}
	var out attemptEnd
	c.conn.Mu.Lock()
	out.read(c)
	out.final = s.sent.Disabled || c.decided
	err := c.end.Err
	c.conn.Mu.Unlock()
	c.reportDone(err)
	for {
		last := err
		if err = s.tries.next(s.ctx, s.client, &s.info, &out, last); err != nil {
			break
		}
		c.reportTrailer()
		c.observer.end(last)
		next := new(clientCall)
		next.initStream(&s.info)
		if err = s.begin(next); err == nil {
			if ended := s.ctx.Err(); ended != nil {
				// The context's AfterFunc may have cancelled only the previous attempt.
				next.conn.cancel(next, ended)
			}
			return true
		}
		out = attemptEnd{final: next.dropped}
	}
	c.conn.Mu.Lock()
	defer c.conn.Mu.Unlock()
	c.decided = true
	if err != c.end.Err { //nolint:errorlint // whether it is the same one
		c.end = ending.Failed(err)
	}
	return false
}
