package prepared

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
)

// Can returns nil if Open can carry the plan's calls. Otherwise the error names the reason,
// and wraps errors.ErrUnsupported.
func Can(plan service.Plan) error {
	why := ""
	switch {
	case plan.Wire != service.HTTP1 && plan.Wire != service.HTTP2 && plan.Wire != service.GRPC:
		why = fmt.Sprintf("the wire %s", plan.Wire)
	case plan.Keep:
		why = "answers that are looked at"
	case plan.Varied:
		why = "requests that are made while calls are sent"
	case plan.Lifecycle != conn.Kept:
		why = "one connection per call"
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
	return fmt.Errorf("prepared requests: not with %s: %w", why, errors.ErrUnsupported)
}

// Open makes a client of a plan. Its connections are open when it returns.
func Open(ctx context.Context, plan service.Plan) (service.Client, error) {
	if err := Can(plan); err != nil {
		return nil, err
	}
	dialer, err := newDialer(plan)
	if err != nil {
		return nil, err
	}
	if plan.Wire == service.HTTP1 {
		return openHTTP1(ctx, plan, dialer)
	}
	return openHTTP2(ctx, plan, dialer)
}

// requests holds the encoded form of a definition's requests.
type requests[T any] struct {
	first *service.Request // most definitions have one
	only  *T
	all   map[*service.Request]*T
}

func encodeAll[T any](d *service.Definition, encode func(*service.Definition, *service.Request) (*T, error)) (requests[T], error) {
	r := requests[T]{all: map[*service.Request]*T{}}
	for i := range d.Requests {
		one := &d.Requests[i]
		encoded, err := encode(d, one)
		if err != nil {
			return r, fmt.Errorf("request %d of %d (%s %s): %w", i+1, len(d.Requests), one.Method, one.Path, err)
		}
		if r.all[one] = encoded; r.first == nil {
			r.first, r.only = one, encoded
		}
	}
	return r, nil
}

func (r *requests[T]) find(request *service.Request) (*T, error) {
	if request == r.first {
		return r.only, nil
	}
	if encoded, found := r.all[request]; found {
		return encoded, nil
	}
	return nil, errors.New("the request is not in the definition: only the definition's requests are prepared")
}
