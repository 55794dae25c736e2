package body

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/sum"
	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/probe/gotrace"
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

// stackClients holds a worker's clients of a stack, and the callers that use these clients.
type stackClients struct {
	mode     scenario.Connection
	dialer   *conn.Dialer
	clients  []stack.Client
	callers  []workload.Caller
	settings []tuning.Setting   // settings that differ from a library's default
	calls    []*instantRecorder // one per caller; empty if the instants of calls are not recorded
	// ownConnections is true if each caller has a connection of its own.
	ownConnections bool
	// service is the client of a user's own service. If service is set, clients, target, dial and
	// newCaller are not set.
	service io.Closer
	counted service.Counted // service, if it calls several addresses or services
	own     []*service.Caller
	holder  service.Holder // service, if it holds streams, as holding says
	holding *service.Holding

	target    stack.Target
	dial      func(context.Context, stack.Target) (stack.Client, error)
	newCaller func(conn grpc.ClientConnInterface, client int) workload.Caller
}

// connect opens connections in the spec's connection mode. It makes a caller for each client.
func connect(ctx context.Context, spec *task) (*stackClients, error) {
	if spec.own == nil {
		return connectService(ctx, spec)
	}
	if stack.UsesLoadEngine(spec.variant) {
		return connectPrepared(ctx, spec)
	}
	return connectStack(ctx, spec)
}

// connectStack connects with the client that belongs to the stack.
func connectStack(ctx context.Context, spec *task) (*stackClients, error) {
	own, variant := spec.own, spec.variant
	work, parameters, err := spec.workload()
	if err != nil {
		return nil, err
	}
	var asked scenario.Connection
	if err := asked.UnmarshalText([]byte(spec.Client.Connection)); err != nil {
		return nil, err
	}
	conns := &stackClients{mode: catalog.ConnectionOf(own, variant, asked), dialer: &conn.Dialer{Sources: spec.Client.Sources, Socket: catalog.Socket(variant)}}
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
		n, conns.ownConnections = spec.Client.Clients, true
	} else {
		target.Connections = conns.mode.ConnectionCount(spec.Client.Clients)
	}
	if conns.settings, err = spec.clientSettings(target); err != nil {
		return nil, err
	}
	conns.dial = func(ctx context.Context, target stack.Target) (stack.Client, error) {
		return own.NewClient(ctx, catalog.OwnOptions(variant), target)
	}
	first, marks := spec.Client.GroupOrOwn().First, gotrace.NewSampler(spec.MarkChance)
	conns.newCaller = func(conn grpc.ClientConnInterface, client int) workload.Caller {
		var marker *callMarker
		if spec.Traces {
			marker = &callMarker{ClientConnInterface: conn, chooser: marks, inMetadata: own.Info().MarksInMetadata}
			conn = marker
		}
		caller := work.NewCaller(conn, workload.Job{Parameters: parameters, Client: first + client, Seed: spec.Client.Seed})
		if extra := catalog.BusyClient(variant); extra > 0 {
			caller = busyCaller{caller, extra}
		}
		return conns.noteCaller(spec, marker, caller)
	}
	conns.target = target
	if err := conns.openClients(ctx, n); err != nil {
		conns.close()
		return nil, fmt.Errorf("connect to %s: %w", spec.Address, err)
	}
	for i := range spec.Client.Clients {
		conns.callers = append(conns.callers, conns.newCaller(conns.clients[i%len(conns.clients)], i))
	}
	return conns, nil
}

// noteCaller returns a caller that records the instants of calls, if the spec asks for them.
func (conns *stackClients) noteCaller(spec *task, marker *callMarker, caller workload.Caller) workload.Caller {
	calls := spec.newInstantRecorder(spec.Client.Clients)
	if calls == nil {
		return caller
	}
	conns.calls = append(conns.calls, calls)
	return recordingCaller{caller, calls, marker}
}

// openClients makes n clients. It returns only the first error, since most errors are the same.
func (conns *stackClients) openClients(ctx context.Context, n int) error {
	conns.clients = make([]stack.Client, n)
	return conn.OpenEach(ctx, n, func(ctx context.Context, i int) error {
		client, err := conns.dial(ctx, conns.target)
		// After an error, client may be a nil pointer inside a non-nil interface.
		if err == nil {
			conns.clients[i] = client
		}
		return err
	})
}

// trafficOf returns the traffic so far on all connections of a dialer and of clients.
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

// close closes all clients. It ignores errors, since the measurement is already complete.
func (conns *stackClients) close() {
	for _, one := range conns.clients {
		if one != nil {
			_ = one.Close()
		}
	}
	if conns.service != nil {
		_ = conns.service.Close()
	}
}

// connectService connects to a user's own service. It makes a caller for each client.
func connectService(ctx context.Context, spec *task) (*stackClients, error) {
	definition, err := service.Parse(spec.Workload.Definition)
	if err != nil {
		return nil, err
	}
	var mode scenario.Connection
	if err := mode.UnmarshalText([]byte(spec.Client.Connection)); err != nil {
		return nil, err
	}
	conns := &stackClients{mode: mode, dialer: &conn.Dialer{Sources: spec.Client.Sources}}
	return conns, conns.openServiceClient(ctx, spec, definition, func(c *service.Caller) workload.Caller { return c })
}

// openServiceClient connects to a service and makes a caller for each client.
func (conns *stackClients) openServiceClient(ctx context.Context, spec *task, definition *service.Definition, checked func(*service.Caller) workload.Caller) error {
	expected, err := definition.Expectations()
	if err != nil {
		return err
	}
	group := spec.Client.GroupOrOwn()
	sources, err := services.NewSources(definition, group.Of, spec.Client.Seed)
	if err != nil {
		return err
	}
	client, err := services.Open(ctx, service.Plan{
		Definition: definition, Connections: conns.mode.ConnectionCount(spec.Client.Clients),
		Lifecycle: conn.LifecycleOf(conns.mode.Mode),
		Callers:   spec.Client.Clients, Dialer: conns.dialer,
		Keep: expected.UseContent() || sources.Uses.Header || sources.Uses.Body, Varied: sources.Varied,
	})
	if err != nil {
		return fmt.Errorf("connect to %s: %w", definition.Address, err)
	}
	conns.service = client
	marks := gotrace.NewSampler(spec.MarkChance)
	conns.counted, _ = client.(service.Counted)
	if engine, says := client.(connectionKeeper); says {
		conns.ownConnections = engine.OwnConnections()
	}
	conns.holder, _ = client.(service.Holder)
	conns.holding = definition.Holding
	for i := range spec.Client.Clients {
		number := group.First + i
		caller := definition.NewCaller(client, sources.Of(number))
		caller.CheckAnswers(expected, spec.Client.Seed+uint64(number))
		conns.own = append(conns.own, caller)
		conns.callers = append(conns.callers, conns.noteCaller(spec, spec.newServiceMarker(marks), checked(caller)))
	}
	if conns.holder != nil {
		return conns.holdStreams(ctx)
	}
	// Some users need calls before the load, such as a login. Only a few users call at a time.
	return conn.OpenEach(ctx, len(conns.own), func(ctx context.Context, i int) error {
		if err := conns.own[i].Begin(ctx); err != nil {
			return fmt.Errorf("user %d of %d: a call before the load (such as a login) failed: %w", i+1, len(conns.own), err)
		}
		return nil
	})
}

// receiveDrain limits the wait, after the window, for messages that the server sends at its own time.
const receiveDrain = time.Second

// planStreams tells a plan how callers hold streams.
func (conns *stackClients) planStreams(p *load.Plan) {
	if conns.holder == nil {
		return
	}
	p.Sharing = conns.holder.CallersPerStream()
	if p.Open != nil {
		p.Open.Own = conns.holding.OwnSchedule
	}
	if conns.holding.Exchange == service.Receive && p.Duration > 0 {
		p.Drain = min(p.Drain, receiveDrain)
	}
}

// holdStreams opens a stream for each caller, or for several callers that share it: at a rate, or
// as fast as possible without one.
func (conns *stackClients) holdStreams(ctx context.Context) error {
	shared, perSecond := conns.holder.CallersPerStream(), conns.holding.OpenPerSecond
	streams, begin := (len(conns.own)+shared-1)/shared, clock.Now()
	return conn.OpenEach(ctx, streams, func(ctx context.Context, i int) error {
		if perSecond > 0 {
			clock.Until(begin + int64(float64(i)/perSecond*1e9))
		}
		for n := i * shared; n < min((i+1)*shared, len(conns.own)) && ctx.Err() == nil; n++ {
			if err := conns.own[n].Hold(ctx, n); err != nil {
				return fmt.Errorf("open stream %d of %d: %w", i+1, streams, err)
			}
		}
		return ctx.Err()
	})
}

// streams returns the counts of the held streams, or nil if no stream is held.
func (conns *stackClients) streams() *record.Streams {
	if conns.holder == nil {
		return nil
	}
	return conns.holder.Streams()
}

// A connectionKeeper is a service's client that knows whether each caller keeps a connection of its
// own.
type connectionKeeper interface{ OwnConnections() bool }

// checkingCost returns the cost of checking all callers' answers, or nil if no answer was checked.
// No caller may make a call meanwhile.
func (conns *stackClients) checkingCost() *record.Checking {
	var all *record.Checking
	for _, caller := range conns.own {
		all = sum.AddPresent(all, caller.CheckingCost())
	}
	return all
}

// requestsOutside returns how many requests of a user's service are not measured, or nil for the
// laboratory's own stacks.
func (conns *stackClients) requestsOutside(m *record.Measurement) *int64 {
	if len(conns.own) == 0 {
		return nil
	}
	outside := -m.Requests - m.Resent
	for _, caller := range conns.own {
		outside += caller.Sent()
	}
	return &outside
}

// preparedCall holds a workload's encoded unary call, for a client that the stack does not provide.
type preparedCall struct {
	definition *service.Definition
	mode       scenario.Connection // the connection mode for which the spec asks
	// answerBytes is the size of the answer. wireBytes is what a new connection received in all.
	answerBytes, wireBytes int64
}

// prepareCall makes the workload's call with the stack's own client, which checks the answer. Then
// it makes the call with the prepared request, to find out the size of the answer.
func (s *task) prepareCall(ctx context.Context) (*preparedCall, error) {
	ctx, cancel := context.WithTimeout(ctx, foreignExtraTime)
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
		return nil, fmt.Errorf("make a first call with the stack's own client: %w", err)
	}
	l := &preparedCall{mode: conns.mode, definition: &service.Definition{
		Wire: service.GRPC, Network: "tcp", Address: s.Address, Authority: s.Address, Requests: []service.Request{request},
	}}
	switch {
	case len(request.Messages) > 0:
	case stack.ProtocolFor(s.own, s.variant) == httpwire.HTTP1.String():
		l.definition.Wire = service.HTTP1
	default:
		l.definition.Wire = service.HTTP2
	}
	if err := l.learnAnswerSize(ctx); err != nil {
		return nil, fmt.Errorf("make a first call with a prepared request: %w", err)
	}
	return l, nil
}

// learnRequest makes a call and returns the request that the client sent.
func (conns *stackClients) learnRequest(ctx context.Context) (service.Request, error) {
	seen := &callRecorder{ClientConnInterface: conns.clients[0]}
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
		// The prepared request must not carry the deadline of ctx.
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

// learnAnswerSize makes the call over a separate connection, and stores the size of the answer.
func (l *preparedCall) learnAnswerSize(ctx context.Context) error {
	spec := &task{Spec: worker.Spec{Client: &worker.ClientSpec{Clients: 1}}}
	alone := &stackClients{mode: scenario.Connection{Mode: scenario.Shared}, dialer: &conn.Dialer{}}
	var seen *service.Caller
	if err := alone.openServiceClient(ctx, spec, l.definition, func(c *service.Caller) workload.Caller { seen = c; return c }); err != nil {
		return err
	}
	defer alone.close()
	if err := seen.Call(ctx); err != nil {
		return err
	}
	l.answerBytes, l.wireBytes = seen.AnswerBytes(), trafficOf(alone.dialer).ReceivedBytes
	return nil
}

// callRecorder records the method and the request of a unary call.
type callRecorder struct {
	grpc.ClientConnInterface
	method  string
	request proto.Message
}

func (c *callRecorder) Invoke(ctx context.Context, method string, request, answer any, options ...grpc.CallOption) error {
	c.method = method
	c.request, _ = request.(proto.Message) // generated code sends no other type
	return c.ClientConnInterface.Invoke(ctx, method, request, answer, options...)
}

func (*callRecorder) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("this workload opens a stream, but prepared requests work only for unary calls: use the stack's own client")
}

// connectPrepared makes callers that send a prepared request, which is encoded before the load.
func connectPrepared(ctx context.Context, spec *task) (*stackClients, error) {
	call, err := spec.prepareCall(ctx)
	if err != nil {
		return nil, err
	}
	conns := &stackClients{mode: call.mode, dialer: &conn.Dialer{Sources: spec.Client.Sources}}
	conns.settings = append(processSettings(tuning.Client), tuning.Setting{
		Side: tuning.Client, Name: stack.CallerKey, Value: "prepared requests", Default: "the stack's own client",
		Why: "the variant's option " + stack.CallerKey,
	})
	return conns, conns.openServiceClient(ctx, spec, call.definition, func(c *service.Caller) workload.Caller {
		return sizedCaller{c, call.answerBytes}
	})
}

// A sizedCaller returns an error for an answer whose size differs from the first answer's size.
type sizedCaller struct {
	*service.Caller
	wantBytes int64
}

func (c sizedCaller) Check() error {
	if got := c.AnswerBytes(); got != c.wantBytes {
		return fmt.Errorf("an answer has %d bytes, but the first answer had %d bytes", got, c.wantBytes)
	}
	return nil
}
