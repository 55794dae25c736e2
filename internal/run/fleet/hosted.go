package fleet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/crowd"
	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/run/worker"
)

// A workerEvent is a message from an agent about one worker. One of its fields is set, or
// Progress with an interval.
type workerEvent struct {
	Ready    *worker.Ready    `json:"ready,omitempty"`
	Progress *live.Progress   `json:"progress,omitempty"`
	Interval *worker.Interval `json:"interval,omitempty"`
	Result   *worker.Result   `json:"result,omitempty"`
	// Intervals holds the intervals of the worker's whole life. They come with the result.
	Intervals []worker.Interval `json:"intervals,omitempty"`
	Ended     *ended            `json:"ended,omitempty"`
}

// An ended is the last message about a worker.
type ended struct {
	Failure string          `json:"failure,omitempty"`
	CPUNS   int64           `json:"cpu_ns"`
	Machine *worker.Machine `json:"machine,omitempty"`
	// Samples names the object that has the worker's samples.
	Samples        string `json:"samples,omitempty"`
	SamplesMissing string `json:"samples_missing,omitempty"` // why there is none
}

// A process is the running program of a worker.
type process interface {
	worker.End
	Wait() error
}

var _ process = (*worker.Process)(nil)

// A hosted is a worker in the agent's care.
type hosted struct {
	agent     *agent
	run, name string
	process   process
	watch     *machineWatch
	outside   *worker.Outsider // nil: wirelab's own worker, which reports its cost
	samples   string           // where the worker writes them; empty: nowhere
	files     []string         // in the spool; removed when it has ended
	done      chan struct{}
	quiet     *budget
	abandon   context.CancelFunc // gives up handing over the remaining messages

	looked sync.Once
	costs  worker.Costs // read from outside, once looked is done

	guard     sync.Mutex // guards the fields below
	intervals crowd.History
	last      *live.Progress // nil: it has reported none yet
}

// cost reads the worker's cost at the first call, and returns it.
func (w *hosted) cost() worker.Costs {
	w.looked.Do(func() { w.costs = w.outside.LookBack() })
	return w.costs
}

// start starts a worker as an order says.
func (a *agent) start(o *order) error {
	if err := protocol.CheckName(o.Worker); err != nil {
		return err
	}
	program, err := a.allowed.program(o.Program)
	if err != nil {
		return err
	}
	switch now, err := HashOf(program.Command[0]); {
	case err != nil:
		return fmt.Errorf("program %s: %w", program.Name, err)
	case now != o.Program:
		return fmt.Errorf("the program %s was replaced after this agent had started: start the agent again", program.Name)
	}
	if err := a.allowed.check(o.Spec); err != nil {
		return err
	}
	a.guard.Lock()
	defer a.guard.Unlock()
	if a.holder != o.Run {
		return errors.New("its lease has ended")
	}
	for name, one := range a.workers {
		if one.hasEnded() {
			delete(a.workers, name)
		}
	}
	if a.workers[o.Worker] != nil || len(a.workers) >= mostWorkers {
		return fmt.Errorf("worker %s: the name is taken, or this agent has %d workers already", o.Worker, len(a.workers))
	}
	w := &hosted{agent: a, run: o.Run, name: o.Worker, done: make(chan struct{}), quiet: newBudget()}
	spec := *o.Spec
	if err := w.place(&spec); err != nil {
		return err
	}
	if a.AgentOptions.start == nil {
		w.watch = watchMachine(a.CPUs)
	}
	launch := worker.Launch{
		Name: a.Name + ": " + string(spec.Role), Command: program.Command, Spec: spec,
		In:         host.Surroundings{CPUs: a.CPUs, Nice: a.Nice},
		OnProgress: w.progress, OnInterval: w.interval,
		Env: withoutProxies(),
	}
	if spec.Role == worker.ClientRole {
		launch.Silence = clientSilence
	}
	if w.process, err = a.launch(launch); err != nil {
		return err
	}
	if program.Name != a.Programs[0].Name {
		w.outside = worker.OutsideOf(w.process.PID())
	}
	w.watch.guard(a.Programs[0].Command, w.process.PID(), a.Nice)
	a.workers[o.Worker] = w
	ctx, abandon := context.WithCancel(context.Background())
	w.abandon = abandon
	a.running.Go(func() { w.follow(ctx) })
	return nil
}

// withoutProxies returns the environment without proxies: a worker must not dial a proxy, which
// may be outside the ranges.
func withoutProxies() (environment []string) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		environment = append(environment, name+"=")
	}
	return environment
}

// clientSilence limits the time between two events of a client.
const clientSilence = 30 * time.Second

// place fills in the agent's own values of a spec: files in its spool, its server's port.
func (w *hosted) place(spec *worker.Spec) error {
	if spec.Role == worker.ServerRole && w.agent.Port != 0 {
		spec.Address = fmt.Sprintf("%s:%d", w.agent.Listen, w.agent.Port)
	}
	if spec.Client == nil {
		return nil
	}
	own := *spec.Client
	spec.Client = &own
	path := filepath.Join(w.agent.spool, w.run+"-"+w.name)
	if own.CallsFile != "" {
		own.CallsFile = path + ".calls"
		w.files = append(w.files, own.CallsFile)
	}
	if own.SamplesFile != "" {
		own.SamplesFile = path + ".parquet"
		w.samples = own.SamplesFile
		w.files = append(w.files, own.SamplesFile)
	}
	return nil
}

func (w *hosted) hasEnded() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// lastWords limits the time to report the end of a killed worker.
const lastWords = 2 * time.Second

// kill ends the worker at once. Its remaining messages are dropped.
func (w *hosted) kill() {
	time.AfterFunc(lastWords, w.abandon)
	w.process.Kill()
}

// follow reports the worker's events until it has ended, and hands over its results while ctx
// lasts. The process ends by orders, or with the agent.
func (w *hosted) follow(ctx context.Context) {
	defer close(w.done)
	defer w.abandon()
	if ready, err := w.process.Ready(context.Background()); err == nil {
		w.keep(ctx, "ready", workerEvent{Ready: &ready})
	}
	result, err := w.process.Result(context.Background())
	costs := w.cost()
	if err == nil {
		switch {
		case result.Client != nil:
			costs.AddTo(result.Client)
		case result.Server != nil:
			costs.AddToServer(result.Server)
		}
		w.guard.Lock()
		intervals := w.intervals.All()
		w.guard.Unlock()
		w.keep(ctx, "result", workerEvent{Result: &result, Intervals: intervals})
	}
	failure := w.process.Wait()
	last := &ended{CPUNS: int64(w.process.CPU()), Machine: w.watch.stop(w.process.CPU())}
	if failure = cmp.Or(failure, err); failure != nil {
		last.Failure = failure.Error()
	}
	if w.samples != "" && failure == nil {
		if last.Samples, err = w.upload(ctx); err != nil {
			last.SamplesMissing = err.Error()
		}
	}
	for _, path := range w.files {
		_ = os.Remove(path) // mostly there is no such file
	}
	w.keep(ctx, "ended", workerEvent{Ended: last})
}

// progress reports how far the worker has come. A change is sent at once, other progress only when
// nothing else is sent.
func (w *hosted) progress(p live.Progress) {
	p.Live = nil // intervals have these figures
	w.guard.Lock()
	last := w.last
	turns := last == nil || p.Warming != last.Warming || p.Settled != last.Settled || p.Paused != last.Paused
	w.last = &p
	w.guard.Unlock()
	if turns || w.quiet.isSilent() {
		w.tell(workerEvent{Progress: &p}, turns)
	}
}

// interval keeps an interval, and sends it if the budget allows. The message repeats the last
// progress, since the first message with it may be lost.
func (w *hosted) interval(i worker.Interval) {
	w.guard.Lock()
	w.intervals.Add(i)
	last := w.last
	w.guard.Unlock()
	w.tell(workerEvent{Interval: &i, Progress: last}, false)
}

// tell sends a message that may be lost. With must, it is sent even over the budget.
func (w *hosted) tell(t workerEvent, must bool) {
	message, err := encodeLive(t)
	subject := w.agent.credentials.LiveSubject(w.agent.Name, w.run, w.name)
	if err == nil && (w.quiet.spend(len(subject)+len(message)) || must) {
		_ = w.agent.conn.Publish(subject, message)
	}
}

// encodeLive encodes a message that may be lost: JSON, followed by an interval's histogram, which
// would be longer by a third in base64.
func encodeLive(t workerEvent) ([]byte, error) {
	var histogram []byte
	if t.Interval != nil {
		without := *t.Interval
		var err error
		if histogram, err = base64.StdEncoding.DecodeString(without.Histogram); err != nil {
			return nil, err
		}
		without.Histogram = ""
		t.Interval = &without
	}
	text, err := json.Marshal(t)
	return append(append(text, '\n'), histogram...), err
}

// decodeWorkerEvent reads a message of an agent about a worker, live or kept.
func decodeWorkerEvent(message []byte) (t workerEvent, err error) {
	text, histogram, _ := bytes.Cut(message, []byte{'\n'})
	if err := json.Unmarshal(text, &t); err != nil {
		return t, err
	}
	if t.Interval != nil && len(histogram) > 0 {
		t.Interval.Histogram = base64.StdEncoding.EncodeToString(histogram)
	}
	return t, nil
}

const (
	// keepFor limits the time to hand over messages that must not be lost.
	keepFor = 5 * time.Minute
	// mostInMessage is the most bytes in one message. Longer ones are sent in parts, since a
	// server's usual limit is 1 MiB.
	mostInMessage = 512 << 10
	partHeader    = "Wl-Part" // as in 2/3
)

// keep hands over a message that must not be lost. The stream drops repetitions of it.
func (w *hosted) keep(ctx context.Context, what string, t workerEvent) {
	whole, err := json.Marshal(t)
	if err != nil {
		w.agent.report(fmt.Sprintf("worker %s: encode its %s: %v", w.name, what, err))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepFor)
	defer cancel()
	parts := (len(whole) + mostInMessage - 1) / mostInMessage
	for i := range parts {
		m := nats.NewMsg(w.agent.credentials.KeptSubject(w.agent.Name, w.run, w.name))
		m.Data = whole[i*mostInMessage : min(len(whole), (i+1)*mostInMessage)]
		m.Header.Set(partHeader, fmt.Sprintf("%d/%d", i+1, parts))
		id := fmt.Sprintf("%s/%s/%s/%s/%d", w.agent.card.Session, w.run, w.name, what, i)
		for {
			publishing, done := context.WithTimeout(ctx, 2*time.Second)
			_, err = w.agent.stream.PublishMsg(publishing, m, jetstream.WithMsgID(id))
			done()
			if err == nil || ctx.Err() != nil {
				break
			}
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		if err != nil {
			w.agent.report(fmt.Sprintf("worker %s: its %s was not handed over: %v", w.name, what, err))
			return
		}
	}
}

// upload puts the samples into the fleet's store.
func (w *hosted) upload(ctx context.Context) (object string, err error) {
	ctx, cancel := context.WithTimeout(ctx, keepFor)
	defer cancel()
	file, err := os.Open(w.samples)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // it was only read
	store, err := w.agent.stream.ObjectStore(ctx, w.agent.credentials.SamplesStore())
	if err != nil {
		return "", err
	}
	object = w.run + "-" + w.agent.Name + "-" + w.name
	_, err = store.Put(ctx, jetstream.ObjectMeta{Name: object}, file)
	return object, err
}
