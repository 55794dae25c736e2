package body

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/base/sum"
	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/conn"
	httpwire "wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/service"
	services "wirelab.dev/internal/wire/service/catalog"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
	"wirelab.dev/internal/wire/workload"
)

// connected is the stack clients of one worker, and the callers that use them.
type connected struct {
	mode     scenario.Connection
	dialer   *conn.Dialer
	clients  []stack.Client
	callers  []workload.Caller
	settings []tuning.Setting // those that are not a library's default
	calls    *instants        // nil: instants are not kept
	service  io.Closer        // of the user's own service; then clients, and the fields after own, are not set
	own      []*service.Caller

	target    stack.Target
	dial      func(context.Context, stack.Target) (stack.Client, error)
	newCaller func(conn grpc.ClientConnInterface, client int) workload.Caller
}

// connect opens the connections of the spec's mode and makes a caller for each client.
func connect(ctx context.Context, spec *task) (*connected, error) {
	if spec.own == nil {
		return connectService(ctx, spec)
	}
	if stack.CallsPrepared(spec.variant) {
		return connectPrepared(ctx, spec)
	}
	return connectStack(ctx, spec)
}

// connectStack connects with the stack's own client.
func connectStack(ctx context.Context, spec *task) (*connected, error) {
	own, variant := spec.own, spec.variant
	work, parameters, err := spec.workload()
	if err != nil {
		return nil, err
	}
	var asked scenario.Connection
	if err := asked.UnmarshalText([]byte(spec.Client.Connection)); err != nil {
		return nil, err
	}
	conns := &connected{mode: catalog.ConnectionOf(own, variant, asked), dialer: &conn.Dialer{Sources: spec.Client.Sources, Congestion: catalog.Congestion(variant)}}
	target := stack.Target{
		Address: spec.Address, Operations: work.Info().Operations,
		Lifecycle: conn.LifecycleOf(conns.mode.Mode),
		Trust:     secure.Trust{RootPEM: []byte(spec.Client.RootPEM), SkipVerify: spec.Client.SkipVerify},
		Dialer:    conns.dialer,
	}
	if err := stack.CheckLifecycle(own, variant, target.Lifecycle); err != nil {
		return nil, err
	}
	n := 1
	if conns.mode.Mode == scenario.PerWorker {
		n = spec.Client.Clients
	} else {
		target.Connections = conns.mode.Want(spec.Client.Clients)
	}
	if conns.settings, err = spec.clientSettings(target); err != nil {
		return nil, err
	}
	conns.dial = func(ctx context.Context, target stack.Target) (stack.Client, error) {
		return own.NewClient(ctx, catalog.OwnOptions(variant), target)
	}
	conns.calls = spec.noteInstants()
	first := spec.Client.GroupOf().First
	conns.newCaller = func(conn grpc.ClientConnInterface, client int) workload.Caller {
		return conns.noted(work.NewCaller(conn, workload.Job{Parameters: parameters, Client: first + client, Seed: spec.Client.Seed}))
	}
	conns.target = target
	if err := conns.open(ctx, n); err != nil {
		conns.close()
		return nil, fmt.Errorf("connect to %s: %w", spec.Address, err)
	}
	for i := range spec.Client.Clients {
		conns.callers = append(conns.callers, conns.newCaller(conns.clients[i%len(conns.clients)], i))
	}
	return conns, nil
}

// noted makes a caller note the instants of its calls, if the spec asks for them.
func (conns *connected) noted(caller workload.Caller) workload.Caller {
	if conns.calls == nil {
		return caller
	}
	return notedCaller{caller, conns.calls}
}

// open makes n clients. It returns one error of several: they mostly fail alike.
func (conns *connected) open(ctx context.Context, n int) error {
	conns.clients = make([]stack.Client, n)
	return conn.OpenEach(ctx, n, func(ctx context.Context, i int) error {
		client, err := conns.dial(ctx, conns.target)
		if err == nil { // otherwise client may be a nil pointer
			conns.clients[i] = client
		}
		return err
	})
}

// trafficOf returns the traffic so far of all connections of a dialer's clients.
func trafficOf(dialer *conn.Dialer, clients ...stack.Client) conn.Traffic {
	all := dialer.Traffic()
	for _, c := range clients {
		if own, tells := c.(stack.TrafficReporter); tells {
			if one, known := own.Traffic(); known {
				all = all.Plus(one)
			}
		}
	}
	return all
}

// close ends all clients. Their errors come too late to matter.
func (conns *connected) close() {
	for _, one := range conns.clients {
		if one != nil {
			_ = one.Close()
		}
	}
	if conns.service != nil {
		_ = conns.service.Close()
	}
}

// connectService opens connections to a service of the user's own, and makes a caller for
// each client.
func connectService(ctx context.Context, spec *task) (*connected, error) {
	definition, err := service.Parse(spec.Workload.Definition)
	if err != nil {
		return nil, err
	}
	var mode scenario.Connection
	if err := mode.UnmarshalText([]byte(spec.Client.Connection)); err != nil {
		return nil, err
	}
	conns := &connected{mode: mode, dialer: &conn.Dialer{Sources: spec.Client.Sources}, calls: spec.noteInstants()}
	return conns, conns.openService(ctx, spec, definition, func(c *service.Caller) workload.Caller { return c })
}

// openService opens the connections to a service, and makes a caller for each client.
func (conns *connected) openService(ctx context.Context, spec *task, definition *service.Definition, checked func(*service.Caller) workload.Caller) error {
	expected, err := definition.Expectations()
	if err != nil {
		return err
	}
	group := spec.Client.GroupOf()
	sources, err := services.NewSources(definition, group.Of, spec.Client.Seed)
	if err != nil {
		return err
	}
	client, err := services.Open(ctx, service.Plan{
		Definition: definition, Connections: conns.mode.Want(spec.Client.Clients),
		Lifecycle: conn.LifecycleOf(conns.mode.Mode),
		Callers:   spec.Client.Clients, Dialer: conns.dialer,
		Keep: expected.Keep() || sources.Uses.Header || sources.Uses.Body, Varied: sources.Varied,
	})
	if err != nil {
		return fmt.Errorf("connect to %s: %w", definition.Address, err)
	}
	conns.service = client
	var followers []service.Follower
	for i := range spec.Client.Clients {
		number := group.First + i
		source := sources.Of(number)
		if follower, is := source.(service.Follower); is {
			followers = append(followers, follower)
		}
		caller := definition.NewCaller(client, source)
		caller.Expect(expected, spec.Client.Seed+uint64(number))
		conns.own = append(conns.own, caller)
		conns.callers = append(conns.callers, conns.noted(checked(caller)))
	}
	// The calls that users make before the load, some at a time.
	return conn.OpenEach(ctx, len(followers), func(ctx context.Context, i int) error {
		if err := followers[i].Begin(ctx, client); err != nil {
			return fmt.Errorf("user %d of %d: %w", i+1, len(followers), err)
		}
		return nil
	})
}

// checking returns the cost of checking the answers of all callers, or nil if nothing was
// checked. No caller may be calling.
func (conns *connected) checking() *record.Checking {
	var all *record.Checking
	for _, caller := range conns.own {
		all = sum.Any(all, caller.Checking())
	}
	return all
}

// learned holds a workload's unary call in the form in which other clients make it.
type learned struct {
	definition *service.Definition
	mode       scenario.Connection // of the connections that the spec asks for
	// Sizes of the answer: as service.Answer has it, and of all that came over a connection.
	answerBytes, wireBytes int64
}

// learn makes the call once with the stack's own client, since only this client can tell a right
// answer from a wrong one. Then it makes the call as other clients will.
func (s *task) learn(ctx context.Context) (*learned, error) {
	ctx, cancel := context.WithTimeout(ctx, foreignGrace)
	defer cancel()
	once, client := *s, *s.Client
	client.Clients, client.Group, once.Client = 1, nil, &client
	conns, err := connectStack(ctx, &once)
	if err != nil {
		return nil, err
	}
	defer conns.close()
	request, err := conns.learnRequest(ctx)
	if err != nil {
		return nil, fmt.Errorf("a first call: %w", err)
	}
	l := &learned{mode: conns.mode, definition: &service.Definition{
		Wire: service.GRPC, Network: "tcp", Address: s.Address, Authority: s.Address, Requests: []service.Request{request},
	}}
	switch {
	case len(request.Messages) > 0:
	case stack.ProtocolFor(s.own, s.variant) == httpwire.HTTP1.String():
		l.definition.Wire = service.HTTP1
	default:
		l.definition.Wire = service.HTTP2
	}
	if err := l.learnAnswer(ctx); err != nil {
		return nil, fmt.Errorf("a first call as others make it: %w", err)
	}
	return l, nil
}

// learnRequest makes a call, and returns its request.
func (conns *connected) learnRequest(ctx context.Context) (service.Request, error) {
	seen := &onlyCall{ClientConnInterface: conns.clients[0]}
	caller := conns.newCaller(seen, 0)
	if err := caller.Call(ctx); err != nil {
		return service.Request{}, err
	}
	if checker, checks := caller.(load.Checker); checks {
		if err := checker.Check(); err != nil {
			return service.Request{}, err
		}
	}
	if maker, onHTTP := conns.clients[0].(stack.RequestMaker); onHTTP {
		// Without ctx, whose deadline would go with every request.
		made, err := maker.UnaryRequest(context.WithoutCancel(ctx), seen.method, seen.request)
		if err != nil {
			return service.Request{}, err
		}
		return requestOf(made)
	}
	message, err := proto.Marshal(seen.request)
	return service.Request{Path: seen.method, Messages: [][]byte{message}}, err
}

func requestOf(made *http.Request) (service.Request, error) {
	request := service.Request{Method: made.Method, Path: made.URL.RequestURI()}
	for name, values := range made.Header {
		for _, value := range values {
			request.Header = append(request.Header, service.Field{Name: name, Value: value})
		}
	}
	slices.SortFunc(request.Header, func(a, b service.Field) int { return strings.Compare(a.Name, b.Name) })
	var err error
	request.Body, err = io.ReadAll(made.Body)
	return request, err
}

// learnAnswer makes the call over a connection of its own.
func (l *learned) learnAnswer(ctx context.Context) error {
	spec := &task{Spec: worker.Spec{Client: &worker.ClientSpec{Clients: 1}}}
	alone := &connected{mode: scenario.Connection{Mode: scenario.Shared}, dialer: &conn.Dialer{}}
	var seen *service.Caller
	if err := alone.openService(ctx, spec, l.definition, func(c *service.Caller) workload.Caller { seen = c; return c }); err != nil {
		return err
	}
	defer alone.close()
	if err := seen.Call(ctx); err != nil {
		return err
	}
	l.answerBytes, l.wireBytes = seen.AnswerBytes(), trafficOf(alone.dialer).ReceivedBytes
	return nil
}

// onlyCall records the unary call that goes over a connection.
type onlyCall struct {
	grpc.ClientConnInterface
	method  string
	request proto.Message
}

func (c *onlyCall) Invoke(ctx context.Context, method string, request, answer any, options ...grpc.CallOption) error {
	c.method = method
	c.request, _ = request.(proto.Message) // generated code has no others
	return c.ClientConnInterface.Invoke(ctx, method, request, answer, options...)
}

func (*onlyCall) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("this workload opens a stream, and only the stack's own client can: other clients make unary calls only")
}

// connectPrepared makes callers that make the workload's call with requests that were
// encoded before.
func connectPrepared(ctx context.Context, spec *task) (*connected, error) {
	call, err := spec.learn(ctx)
	if err != nil {
		return nil, err
	}
	conns := &connected{mode: call.mode, dialer: &conn.Dialer{Sources: spec.Client.Sources}, calls: spec.noteInstants()}
	conns.settings = append(processSettings(tuning.Client), tuning.Setting{
		Side: tuning.Client, Name: stack.CallerKey, Value: "prepared requests", Default: "the stack's own client",
		Why: "the variant's option " + stack.CallerKey,
	})
	return conns, conns.openService(ctx, spec, call.definition, func(c *service.Caller) workload.Caller {
		return sizedCaller{c, call.answerBytes}
	})
}

// sizedCaller checks that answers have the size of the first one.
type sizedCaller struct {
	*service.Caller
	wantBytes int64
}

func (c sizedCaller) Check() error {
	if got := c.AnswerBytes(); got != c.wantBytes {
		return fmt.Errorf("an answer has %d bytes, and the first had %d", got, c.wantBytes)
	}
	return nil
}
