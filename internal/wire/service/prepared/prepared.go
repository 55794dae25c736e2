// Package prepared carries calls with requests that are known before the window, at the lowest
// client cost. It encodes each request once. Of an answer, it reads only the status and the length.
//
//	Definition.Requests ── encode, once ──> request
//	                                           │ Client.Call
//	                                           v
//	 HTTP/1.1: a caller's goroutine writes it, waits, and parses the answer (http1.Parser)
//	 HTTP/2, gRPC: callers append frames to a shared connection (rpc/h2), which batchio
//	 writes many at a time; its reader counts the answers' bytes and wakes callers
//
// No call starts a timer. One goroutine, the watch, checks several times per timeout for
// calls that have taken too long or whose context has ended.
//
// [CheckPlan] reports whether this package can carry a plan's calls. Package library carries all
// other calls.
//
// Terms:
//
//   - A slot has one connection at a time. An HTTP/1.1 slot serves one caller at a time; an
//     HTTP/2 slot serves many at once.
//   - A caller's state is kept in its Answer between calls, with the slot it uses.
//   - A tick is the time between two checks of the watch. Times are counted in ticks.
//
// This package must not know when calls are sent, nor what a right answer is.
package prepared

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
)

// CheckPlan returns nil if Open supports the plan, or an error that wraps ErrUnsupported.
func CheckPlan(plan service.Plan) error {
	why := ""
	switch {
	case plan.Wire != service.HTTP1 && plan.Wire != service.HTTP2 && plan.Wire != service.GRPC:
		why = fmt.Sprintf("the wire %s", plan.Wire)
	case plan.Keep:
		why = "conditions on headers or bodies of answers"
	case plan.Compress:
		why = "compressed messages"
	case plan.Varied:
		why = "requests with templates or steps"
	case plan.Lifecycle != conn.Kept && plan.Wire != service.HTTP1:
		why = "one connection per call, except over HTTP/1.1"
	}
	for i := range plan.Requests {
		switch r := &plan.Requests[i]; {
		case why != "":
		case plan.Wire == service.GRPC && r.Stream != (service.Stream{}):
			why = "calls with streams of messages"
		case plan.Wire == service.GRPC && len(r.Messages) > 1:
			why = "a unary call with several messages"
		case plan.Wire != service.GRPC && r.Method == http.MethodConnect:
			why = "the method CONNECT"
		}
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("prepared requests do not support %s: %w", why, errors.ErrUnsupported)
}

// Open makes a client for a plan. If connections are kept, they are open when it returns.
func Open(ctx context.Context, plan service.Plan) (service.Client, error) {
	if err := CheckPlan(plan); err != nil {
		return nil, err
	}
	dialer, err := newDialer(plan)
	if err != nil {
		return nil, err
	}
	var client engine
	if plan.Wire == service.HTTP1 {
		client, err = newH1Client(dialer)
	} else {
		client, err = newH2Client(dialer)
	}
	if err != nil {
		return nil, err
	}
	switch plan.Lifecycle {
	case conn.Kept:
		err = conn.OpenEach(ctx, max(dialer.Connections, 1), client.open)
	case conn.Resumed:
		err = dialer.opener.PrimeSession(ctx)
	}
	dialer.watch.start(client.endOverdue)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return client, nil
}

type engine interface {
	service.Client
	open(ctx context.Context, slot int) error
	endOverdue(now int64)
}
