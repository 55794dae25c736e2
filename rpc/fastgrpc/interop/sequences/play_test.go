package sequences

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// An event is what one side saw of one step.
type event struct {
	step int // 0: the handler begins; beyond the script: what the call options hold
	who  side
	text string
}

// A stage plays one script. Only one side acts at a time: the stage begins the next step when all
// goroutines wait. So no outcome depends on who comes first.
type stage struct {
	script *script
	link   *link
	cc     grpc.ClientConnInterface
	ctx    context.Context
	cancel context.CancelFunc
	opts   []grpc.CallOption

	mu      sync.Mutex
	events  []event
	current int // the number of the latest step that began
	ends    map[side]*end

	// The call options' results.
	header, trailer metadata.MD
	peer            peer.Peer
	finished        []error
}

// An end carries out the steps of one side.
type end struct {
	who    side
	steps  chan step
	ready  bool            // it waits for a step; guarded by stage.mu
	last   error           // of the handler's steps
	stream stream          // nil before it is open, and in unary handlers
	ctx    context.Context // the handler's
	doing  step
}

// A stream has the methods that both ends' streams have.
type stream interface {
	Context() context.Context
	SendMsg(m any) error
	RecvMsg(m any) error
}

// waits reports whether the end is within a step other than the handler's return.
func (e *end) waits() bool { return e.doing.do != "" && e.doing.do != finish }

// play returns what both ends saw.
func play(t *testing.T, p pairing, s *script) (events []event) {
	t.Helper()
	defer func() {
		if fault := recover(); fault != nil { // synctest has found goroutines that never end
			events = append(events, event{0, server, fmt.Sprint("panic: ", fault)})
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		st := &stage{script: s, link: newLink(), ends: map[side]*end{
			client: {who: client, steps: make(chan step), ready: true},
			server: {who: server, steps: make(chan step)},
		}}
		cc, stop := p.start(t, st.link, st.service())
		st.cc = cc
		st.ctx = metadata.NewOutgoingContext(t.Context(), s.request)
		if s.deadline {
			var release func()
			st.ctx, release = context.WithTimeout(st.ctx, patience)
			defer release()
		}
		st.ctx, st.cancel = context.WithCancel(st.ctx)
		defer st.cancel()
		st.opts = []grpc.CallOption{
			grpc.Header(&st.header), grpc.Trailer(&st.trailer), grpc.Peer(&st.peer),
			grpc.OnFinish(func(err error) { st.finished = append(st.finished, err) }),
		}
		var clientEnded sync.WaitGroup
		clientEnded.Go(func() { st.perform(st.ends[client]) })
		st.run()
		close(st.ends[client].steps)
		stop()
		clientEnded.Wait()
		events = st.events
	})
	slices.SortStableFunc(events, func(a, b event) int { return a.step - b.step })
	if slices.ContainsFunc(s.steps, func(s step) bool { return s.do == expireCut }) {
		for i, e := range events {
			if e.who == server {
				events[i].text = deadlineAsCancel.Replace(e.text)
			}
		}
	}
	return events
}

// deadlineAsCancel hides which of the two ended the context: at the deadline of grpc-go's server two
// timers race.
var deadlineAsCancel = strings.NewReplacer("DeadlineExceeded", "Canceled", "deadline exceeded", "canceled")

// service describes the four methods. Each runs the server's steps.
func (st *stage) service() *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: "s.S", Methods: []grpc.MethodDesc{{
		MethodName: string(unary),
		Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return st.handleUnary(ctx, decode)
		},
	}}}
	for _, k := range kinds[1:] {
		method := *k.desc()
		method.Handler = func(_ any, s grpc.ServerStream) error {
			_, err := st.handle(s.Context(), s, "")
			return err
		}
		d.Streams = append(d.Streams, method)
	}
	return d
}

func (st *stage) handleUnary(ctx context.Context, decode func(any) error) (any, error) {
	in := new(wrapperspb.BytesValue)
	if err := decode(in); err != nil {
		st.note(0, server, "decode: "+describeError(err))
		return nil, err
	}
	return st.handle(ctx, nil, ", request "+describeMessage(in.GetValue()))
}

// handle is each method's handler.
func (st *stage) handle(ctx context.Context, stream grpc.ServerStream, request string) (any, error) {
	e := st.ends[server]
	e.ctx = ctx
	if stream != nil {
		e.stream = stream
	}
	md, _ := metadata.FromIncomingContext(ctx)
	_, hasDeadline := ctx.Deadline()
	st.note(0, server, fmt.Sprintf("begins: %s, deadline %t, metadata %s%s",
		describePeer(ctx), hasDeadline, describeMetadata(md), request))
	st.setReady(e, true)
	last := st.perform(e)
	err := endings[last.ending].err(e.last)
	if err != nil {
		return nil, err
	}
	return wrapperspb.Bytes(content(last.number, last.size)), nil
}

// perform carries out the steps of an end, up to the handler's return or the end of the channel.
func (st *stage) perform(e *end) (last step) {
	for s := range e.steps {
		st.setReady(e, false)
		st.mu.Lock()
		e.doing = s
		st.mu.Unlock()
		if s.do == finish { // doing stays set
			return s
		}
		text := st.act(e, s)
		st.mu.Lock()
		if st.current != s.number {
			text += fmt.Sprintf(" (during step %d)", st.current)
		}
		st.events = append(st.events, event{s.number, e.who, text})
		e.doing, e.ready = step{}, true
		st.mu.Unlock()
	}
	return step{}
}

func (st *stage) setReady(e *end, ready bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	e.ready = ready
}

func (st *stage) note(number int, who side, text string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.events = append(st.events, event{number, who, text})
}

// run gives each side its steps, and looks at what is left.
func (st *stage) run() {
	all := st.script.steps
	last := slices.IndexFunc(all, func(s step) bool { return s.do == hangUp })
	left := st.runSteps(all[:last])
	for _, who := range []side{client, server} {
		if e := st.ends[who]; e.waits() {
			st.note(all[last].number, who, fmt.Sprintf("waits in %s of step %d", e.doing.do, e.doing.number))
		}
	}
	left = st.runSteps(slices.Concat(all[last:last+1], left))
	left = st.runSteps(slices.Concat(left, all[last+1:]))
	for _, s := range left {
		st.note(s.number, s.who, "never comes to "+string(s.do))
	}
	end := all[len(all)-1].number + 1
	st.note(end, client, fmt.Sprintf("call options: header %s, trailer %s, peer %t, OnFinish %s",
		describeMetadata(st.header), describeMetadata(st.trailer), st.peer.Addr != nil, describeErrors(st.finished)))
	if ctx := st.ends[server].ctx; ctx != nil {
		st.note(end, server, fmt.Sprintf("context in the end: %v", ctx.Err()))
	}
}

// runSteps takes the steps in order, but an end that waits takes its next step later. It returns the
// steps of ends that wait for ever.
func (st *stage) runSteps(steps []step) (left []step) {
	steps = slices.Clone(steps)
	synctest.Wait()
	for {
		i := slices.IndexFunc(steps, st.canDo)
		if i < 0 {
			return steps
		}
		s := steps[i]
		steps = slices.Delete(steps, i, i+1)
		st.mu.Lock()
		st.current = s.number
		st.mu.Unlock()
		if s.who == caller {
			st.actAsCaller(s)
		} else {
			st.ends[s.who].steps <- s
		}
		synctest.Wait()
	}
}

func (st *stage) canDo(s step) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return s.who == caller || st.ends[s.who].ready
}

func (st *stage) actAsCaller(s step) {
	switch s.do {
	case hangUp:
		if st.ends[client].waits() || st.ends[server].doing.do != finish {
			st.cancel()
		}
	case cancel:
		st.cancel()
	case expire, expireCut:
		st.link.setCut(s.do == expireCut)
		time.Sleep(2 * patience)
		synctest.Wait()
		st.link.setCut(false)
	}
}
