package fastgrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/fastgrpc/internal/config"
	"wirelab.dev/rpc/fastgrpc/internal/connect"
	"wirelab.dev/rpc/fastgrpc/internal/ending"
	"wirelab.dev/rpc/fastgrpc/internal/message"
)

// An invocation is a call on a client, with the state that its attempts share. Unary calls and
// streams use the same loop of attempts (retryAfter). Each attempt ends in endAttempt, and each
// call in end.
type invocation struct {
	client     *Client
	method     string
	desc       *grpc.StreamDesc // nil for a unary call
	req, reply any              // unary calls only
	info       callInfo
	ctx        context.Context
	cancel     context.CancelFunc // releases the timer of the method's timeout; nil if there is none

	attempts      int  // attempts that have ended
	retries       int  // attempts that the retry policy caused
	sincePushback int  // retries since the server last set the pause
	transparent   bool // the server did not process the previous attempt
}

// invoke makes a unary call.
func (in *invocation) invoke(ctx context.Context, options ...[]grpc.CallOption) error {
	c := in.client.calls.Get().(*clientCall)
	err := in.prepare(ctx, options...)
	if err == nil {
		c, err = in.retryAfter(c, in.attempt(c))
	}
	in.end(c, err)
	c.reset()
	in.client.calls.Put(c)
	return err
}

// prepare reads the call's options and the service config. A call on a certain connection has no
// service config.
func (in *invocation) prepare(ctx context.Context, options ...[]grpc.CallOption) error {
	c, info := in.client, &in.info
	in.ctx = ctx
	if err := info.readOptions(&c.opts, options...); err != nil {
		return err
	}
	m := new(config.MethodConfig)
	if info.on == nil {
		p := c.pickerState.Load()
		if p.config == nil {
			var err error
			if p, info.resolutionDelay, err = c.waitForConfig(ctx); err != nil {
				return err
			}
		}
		info.throttle, m = p.throttle, p.config.ForMethod(in.method)
	}
	info.applyConfig(&c.opts, m)
	if m.Timeout != nil && *m.Timeout >= 0 {
		in.ctx, in.cancel = context.WithTimeout(ctx, time.Duration(*m.Timeout))
	}
	return nil
}

// retryAfter makes other attempts after attempt c has failed with err, until one succeeds or none
// may follow. It returns the last attempt and its error. If err is nil, the last attempt is c.
func (in *invocation) retryAfter(c *clientCall, err error) (*clientCall, error) {
	for err != nil {
		in.endAttempt(c, err)
		if err = in.waitToRetry(c, err); err != nil {
			break
		}
		if in.desc == nil {
			c.reset()
		} else {
			c = &clientCall{stream: c.stream} // other goroutines may still use the last one
		}
		err = in.attempt(c)
	}
	return c, err
}

// waitToRetry decides whether an attempt may follow attempt c, as in grpc-go (gRFC A6). If the server
// did not process the first attempt, the next one follows at once. Otherwise the service config's
// retry policy decides. waitToRetry returns nil when the next attempt may begin, and the call's error
// if none may follow.
func (in *invocation) waitToRetry(c *clientCall, err error) error {
	info, policy := &in.info, in.info.retry
	in.attempts++
	in.transparent = c.unprocessed && in.attempts == 1 && !in.client.opts.disableTransparentRetry
	switch {
	case c.committed || info.on != nil:
		return err
	case in.transparent:
		return nil
	}
	pause := time.Duration(-1)
	if pushback := metadataOf(c.trailer)[wire.FieldPushback]; len(pushback) > 0 {
		ms, bad := strconv.Atoi(pushback[0])
		if bad != nil || ms < 0 || len(pushback) > 1 {
			info.throttle.CallFailed()
			return err
		}
		pause = time.Duration(ms) * time.Millisecond
	}
	switch {
	case policy == nil || !slices.Contains(policy.RetryableStatusCodes, status.Code(err)) || info.throttle.CallFailed():
		return err
	case in.retries+1 >= policy.MaxAttempts:
		return fmt.Errorf("max retries exhausted: failed after %d attempts: %w", in.retries+1, err)
	case pause >= 0:
		in.sincePushback = 0
	default:
		pause = policy.Backoff(in.sincePushback)
		in.sincePushback++
	}
	in.retries++
	in.client.channel.addWaitingCall()
	defer in.client.channel.removeWaitingCall()
	if !connect.Sleep(in.ctx, pause, nil) {
		return endingOf(in.ctx).Err
	}
	return nil
}

// attempt makes one attempt. A stream's attempt succeeds when the stream is open, a unary call's
// attempt when the reply has been decoded.
func (in *invocation) attempt(c *clientCall) error {
	if err := in.begin(c); err != nil || in.desc != nil {
		return err
	}
	if done := c.ctx.Done(); done == nil {
		<-c.signal
	} else {
		select {
		case <-c.signal:
		case <-done:
			c.conn.cancelCall(c, endingOf(c.ctx))
			<-c.signal
		}
	}
	if c.end.Kind != ending.Succeeded {
		return c.end.Err
	}
	m, ok := c.inbox.Take()
	if !ok {
		return errNoReply
	}
	return in.decode(c, &m, in.reply)
}

var errNoReply = status.Error(codes.Internal, "fastgrpc: the server ended the call with OK but without a response message")

// endingOf returns the ending of a call whose context has ended.
func endingOf(ctx context.Context) ending.Ending {
	return ending.FromError(status.FromContextError(ctx.Err()).Err())
}

// begin opens the attempt's stream. It sends a unary call's request, or what earlier attempts of a
// stream have sent.
func (in *invocation) begin(c *clientCall) error {
	c.ctx, c.h2.Owner = in.ctx, c
	c.inbox.Init(in.info.MaxReceive)
	if c.stream != nil {
		c.signal, c.drained, c.headers = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
	}
	if in.client.opts.stats != nil && in.info.on == nil {
		c.observer = in.startObserver()
		c.ctx = c.observer.ctx
	}
	fields, err := in.variableFields(c.ctx)
	var request *batchio.Buffer
	if err == nil && in.desc == nil {
		request, err = message.Encode(in.info.codec, in.info.compressor, in.req, in.info.MaxSend)
	}
	if err != nil {
		c.committed = true // another attempt would fail, too
		return err
	}
	if err := in.openStream(c, fields); err != nil {
		if request != nil {
			request.Release()
		}
		return err
	}
	var size message.Sizes
	if request == nil {
		c.stream.resume(c)
	} else {
		size = message.SizesOf(request)
		c.committed = len(request.Data) > in.info.maxReplay
		c.conn.h2.SendData(&c.h2, batchio.Payload{Data: request.Data, Owner: request}, true)
		c.conn.FlushBatch()
	}
	c.conn.Mu.Unlock()
	c.observer.reportRequestHeader(c.conn, &in.info)
	if request != nil {
		c.observer.reportSent(in.req, size)
	}
	return nil
}

// openStream opens the attempt's stream on a connection that the balancer chooses. If it succeeds,
// the connection's lock is held on return.
func (in *invocation) openStream(c *clientCall, fields []hpack.HeaderField) error {
	info := &in.info
	for {
		p, err := in.client.pickConn(c.ctx, in.method, info)
		c.picked = p.done
		if err != nil {
			c.committed = p.drop
			return err
		}
		if p.blocked && c.observer != nil {
			c.observer.report(&stats.DelayedPickComplete{})
		}
		c.wantMetadata = in.desc != nil || c.observer != nil || c.picked != nil ||
			info.Header != nil || info.Trailer != nil || info.retry != nil
		fixed, extra, err := in.requestHeader(c.ctx, &p, fields)
		if err == nil {
			if err = p.conn.openStream(c.ctx, c, fixed, extra); err == nil {
				return nil
			}
		}
		if !errors.Is(err, errConnDraining) {
			return err
		}
		if p.done != nil {
			p.done(balancer.DoneInfo{Err: err})
		}
		p.conn.closeAfterCalls() // nothing was sent, so the loop tries another connection
	}
}

// decode decodes a message of the response into v.
func (in *invocation) decode(c *clientCall, m *message.Message, v any) error {
	c.observer.reportHeaderReceived(c)
	how := message.DecodeOptions{Limit: in.info.MaxReceive, Alias: in.info.alias}
	size, err := message.Decode(in.info.codec, c.received, m, v, how)
	if err == nil {
		c.observer.reportReceived(v, size)
	}
	return err
}

// startObserver returns an observer for an attempt, and reports the attempt's begin.
func (in *invocation) startObserver() *observer {
	desc := cmp.Or(in.desc, &grpc.StreamDesc{})
	begin := &stats.Begin{
		IsTransparentRetryAttempt: in.transparent,
		Client:                    true, FailFast: !in.info.WaitForReady,
		IsClientStream: desc.ClientStreams, IsServerStream: desc.ServerStreams,
	}
	tag := &stats.RPCTagInfo{FullMethodName: in.method, FailFast: begin.FailFast, NameResolutionDelay: in.info.resolutionDelay}
	o := newObserver(in.ctx, in.client.opts.stats, tag, begin)
	o.report(begin)
	return o
}

// endAttempt tells the balancer, the stats handler and the call options how an attempt has ended,
// once.
func (in *invocation) endAttempt(c *clientCall, err error) {
	if c.reported {
		return
	}
	c.reported = true
	if c.conn != nil {
		in.info.reportResponse(c)
	}
	if c.picked == nil && c.observer == nil {
		return
	}
	trailer := metadataOf(c.trailer)
	if c.picked != nil {
		c.picked(balancer.DoneInfo{
			Err: err, Trailer: trailer, BytesSent: c.conn != nil, BytesReceived: c.gotHeader, ServerLoad: decodeLoadReport(trailer),
		})
	}
	if c.observer == nil {
		return
	}
	if c.conn != nil {
		c.observer.reportHeaderReceived(c)
		c.observer.report(&stats.InTrailer{Client: true, WireLength: c.trailerLength, Trailer: trailer})
	}
	c.observer.reportEnd(trailer, err)
}

// end ends the call, whose last attempt is c. It runs once.
func (in *invocation) end(c *clientCall, err error) {
	in.endAttempt(c, err)
	if err == nil {
		in.info.throttle.CallSucceeded()
	}
	if in.cancel != nil {
		in.cancel()
	}
	in.info.CallOnFinish(err)
}
