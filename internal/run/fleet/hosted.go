package fleet

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/crowd"
	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/run/worker"
)

// A workerEvent is a message from an agent about one worker. It sets one field, or Interval and
// Progress, or Result and Intervals.
type workerEvent struct {
	Ready    *worker.Ready      `json:"ready,omitempty"`
	Progress *live.Progress     `json:"progress,omitempty"`
	Interval *worker.Interval   `json:"interval,omitempty"`
	Step     *worker.StepResult `json:"step,omitempty"`
	Result   *worker.Result     `json:"result,omitempty"`
	// Intervals holds the intervals of the worker's whole life.
	Intervals []worker.Interval `json:"intervals,omitempty"`
	Ended     *endedMessage     `json:"ended,omitempty"`
}

// An endedMessage reports that a worker has ended. It is the agent's last message about the worker.
type endedMessage struct {
	Failure        string                  `json:"failure,omitempty"`
	CPUNS          int64                   `json:"cpu_ns"`
	Machine        *worker.MachineReadings `json:"machine,omitempty"`
	Samples        *sentSamples            `json:"samples,omitempty"`
	SamplesMissing string                  `json:"samples_missing,omitempty"` // why there are no samples
}

// sentSamples describes a file of samples, whose parts were sent before.
type sentSamples struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// A workerProcess is a worker's process. A test replaces it.
type workerProcess interface {
	worker.TrialEnd
	Wait() error
}

var _ workerProcess = (*worker.Process)(nil)

// A hostedWorker is a worker that this agent has started.
type hostedWorker struct {
	agent     *agent
	run, name string
	block     bool // the worker takes turns with others, which its reports must not disturb
	process   workerProcess
	watch     *machineWatch
	outside   *worker.OutsideReader // nil if the worker reports its own cost
	observer  *worker.Observer      // of the order's probe; nil without one
	end       probe.End             // what the worker is
	samples   string                // file for the worker's samples; empty means no samples
	files     []string              // the worker's files in the spool, to remove after its end
	done      chan struct{}
	quiet     *byteBudget
	abandon   context.CancelFunc // ends the sending of messages about the worker

	looked sync.Once
	costs  worker.OutsideCosts // the result of readCost

	sending sync.Mutex // locked while a message that must not be lost is sent in parts

	guard     sync.Mutex // guards the fields below
	intervals crowd.IntervalHistory
	last      *live.Progress // the latest progress; nil before the first
	window    *probe.Span    // what the observer must observe; nil before it is known
}

// readCost returns the worker's cost. It reads the cost at the first call only.
func (w *hostedWorker) readCost() worker.OutsideCosts {
	w.looked.Do(func() { w.costs = w.outside.StopReading() })
	return w.costs
}

// startWorker starts the worker that an order describes.
func (a *agent) startWorker(o *controllerOrder) error {
	if err := protocol.CheckName(o.Worker); err != nil {
		return err
	}
	program, err := a.allowed.allowedProgram(o.Program)
	if err != nil {
		return err
	}
	switch now, err := FileHash(program.Command[0]); {
	case err != nil:
		return fmt.Errorf("program %s: %w", program.Name, err)
	case now != o.Program:
		return fmt.Errorf("the program %s was replaced while this agent ran: restart the agent", program.Name)
	}
	if err := a.allowed.checkSpec(o.Spec); err != nil {
		return err
	}
	a.guard.Lock()
	defer a.guard.Unlock()
	if a.holder != o.Run {
		return errors.New("the agent's lease to this run has ended, so the agent starts no worker")
	}
	for name, one := range a.workers {
		if one.hasEnded() {
			delete(a.workers, name)
		}
	}
	if a.workers[o.Worker] != nil || len(a.workers) >= maxWorkersPerAgent {
		return fmt.Errorf("cannot start the worker %s: this agent already has a worker of this name, or too many workers (%d)", o.Worker, len(a.workers))
	}
	ctx, abandon := context.WithCancel(context.Background())
	w := &hostedWorker{agent: a, run: o.Run, name: o.Worker, end: endOf(o.Spec.Role), done: make(chan struct{}), quiet: newBudget(), abandon: abandon}
	spec := *o.Spec
	w.block = spec.Client != nil && spec.Client.Block
	if w.observer, err = worker.StartObserver(spec.Probe); err != nil {
		return err
	}
	if err := w.setAgentValues(&spec); err != nil {
		return err
	}
	var unobserved error
	if a.AgentOptions.start == nil {
		w.watch = newMachineWatch(a.CPUs)
	}
	launch := worker.Launch{
		Name: a.Name + ": " + string(spec.Role), Command: program.Command, Spec: spec,
		In:         host.StartOptions{CPUs: a.CPUs, Nice: a.Nice},
		OnProgress: w.reportProgress, OnInterval: w.reportInterval,
		OnStep:  func(s worker.StepResult) { w.reportStep(ctx, s) },
		Env:     emptyProxyVariables(),
		OnStart: func(pid int) { unobserved = w.observeOwn(pid) },
	}
	if spec.Role == worker.ClientRole {
		launch.Silence = clientSilence
	}
	if w.process, err = a.launchWorker(launch); err != nil {
		w.observer.Discard()
		return err
	}
	if unobserved != nil {
		w.process.Kill()
		w.observer.Discard()
		return fmt.Errorf("probe %s: %w", spec.Probe, unobserved)
	}
	if program.Name != a.Programs[0].Name {
		w.outside = worker.ReadCostOfProcess(w.process.PID())
	}
	w.watch.startSentinel(a.Programs[0].Command, w.process.PID(), a.Nice, w.block)
	a.workers[o.Worker] = w
	a.running.Go(func() { w.reportUntilEnd(ctx) })
	return nil
}

// watchTurns lets the sentinel of the agent's turns watch for a worker that got its slices. The first such
// worker starts the sentinel. All workers of the turns are there by then.
func (a *agent) watchTurns(w *hostedWorker, endNS int64) {
	if w.watch == nil || len(a.CPUs) == 0 {
		return
	}
	a.guard.Lock()
	defer a.guard.Unlock()
	isFirst := a.turns == nil || a.turns.endNS != endNS
	if isFirst {
		a.turns = &turnsSentinel{endNS: endNS}
	}
	turns, own := a.turns, w.watch.join(a.turns)
	var pids []int
	for _, one := range a.workers {
		if !one.hasEnded() {
			pids = append(pids, one.process.PID())
		}
	}
	a.running.Go(func() { // ends when the processes have started and stopped
		if isFirst {
			table := host.ReadProcessTable()
			turns.start(a.Programs[0].Command, host.StartOptions{CPUs: a.CPUs, Nice: a.Nice}, table.Families(pids))
		}
		_, _ = own.Stop(context.Background())
	})
}

// emptyProxyVariables returns settings that empty the proxy variables. Otherwise a worker could
// dial a proxy outside the allowed ranges.
func emptyProxyVariables() (environment []string) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		environment = append(environment, name+"=")
	}
	return environment
}

// clientSilence is the longest allowed time between two events of a client.
const clientSilence = 30 * time.Second

// setAgentValues replaces values of a spec by the agent's own: the paths of files, which it moves
// into the spool, and the server's port.
func (w *hostedWorker) setAgentValues(spec *worker.Spec) error {
	spec.ProfileCPU = w.observer.InWorker() // this machine decides it, whatever the controller's can do
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

func (w *hostedWorker) hasEnded() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// killedReportTimeout limits the time for sending the last messages about a killed worker.
const killedReportTimeout = 2 * time.Second

// kill ends the worker at once. After killedReportTimeout, messages about the worker are dropped.
func (w *hostedWorker) kill() {
	time.AfterFunc(killedReportTimeout, w.abandon)
	w.process.Kill()
}

// reportUntilEnd waits for the worker's end. It sends the worker's events, until ctx ends.
func (w *hostedWorker) reportUntilEnd(ctx context.Context) {
	defer close(w.done)
	defer w.abandon()
	if ready, err := w.process.Ready(context.Background()); err == nil {
		w.sendKept(ctx, "ready", workerEvent{Ready: &ready})
	}
	result, err := w.process.Result(context.Background())
	costs := w.readCost()
	var profile *record.Stacks
	if err == nil {
		profile = takeProfile(&result)
		switch {
		case result.Client != nil:
			costs.AddToClient(result.Client)
		case result.Server != nil:
			costs.AddToServer(result.Server)
		}
		w.guard.Lock()
		intervals := w.intervals.All()
		w.guard.Unlock()
		w.sendKept(ctx, "result", workerEvent{Result: &result, Intervals: intervals})
	}
	failure := w.process.Wait()
	last := &endedMessage{CPUNS: int64(w.process.CPU()), Machine: w.watch.stop(w.process.CPU())}
	if failure = cmp.Or(failure, err); failure != nil {
		last.Failure = failure.Error()
	}
	if window := w.measuredWindow(&result); window != nil && failure == nil && last.Machine != nil {
		last.Machine.Seen = w.findings(*window, profile)
	}
	w.observer.Discard() // if there are no findings
	if w.samples != "" && failure == nil {
		if last.Samples, err = w.uploadSamples(ctx); err != nil {
			last.SamplesMissing = err.Error()
		}
	}
	for _, path := range w.files {
		_ = os.Remove(path) // most of these files were never made
	}
	w.sendKept(ctx, "ended", workerEvent{Ended: last})
}

// observeOwn makes the probe observe the worker that this agent has just started, and nothing else of the
// machine: the worker must still be a child of this process, so its number cannot be another process's.
func (w *hostedWorker) observeOwn(pid int) error {
	if err := w.observer.AddProcess(w.end, pid); err != nil {
		return err
	}
	if w.observer != nil && !slices.Contains(host.ReadProcessTable().Family(os.Getpid()), pid) {
		return fmt.Errorf("the process %d is not a worker of this agent", pid)
	}
	return nil
}

func endOf(role worker.Role) probe.End {
	if role == worker.ServerRole {
		return probe.Server
	}
	return probe.Client
}

// takeProfile removes the CPU profile from a worker's result: it goes with the probe's findings.
func takeProfile(r *worker.Result) (profile *record.Stacks) {
	switch {
	case r.Client != nil:
		profile, r.Client.CPU = r.Client.CPU, nil
	case r.Server != nil:
		profile, r.Server.CPU = r.Server.CPU, nil
	}
	return profile
}

// measuredWindow returns the window for the probe. A client knows it; a server's comes with the order to
// stop.
func (w *hostedWorker) measuredWindow(r *worker.Result) *probe.Span {
	w.guard.Lock()
	defer w.guard.Unlock()
	if w.observer != nil && r.Client != nil {
		return new(r.Client.Window())
	}
	return w.window
}

// findings ends the probe and returns what it found about the worker.
func (w *hostedWorker) findings(window probe.Span, profile *record.Stacks) *record.Seen {
	if w.observer == nil {
		return nil
	}
	all := w.observer.Stop(probe.MeasuredWindow{Span: window}, func(probe.End) *record.Stacks { return profile })
	seen := all.ForEnd(w.end)
	crowd.BoundStacks(seen)
	return seen
}

// reportStep sends the result of a search's step. The worker goes on meanwhile.
func (w *hostedWorker) reportStep(ctx context.Context, s worker.StepResult) {
	w.agent.running.Go(func() { w.sendKept(ctx, fmt.Sprintf("step%d", s.Number), workerEvent{Step: &s}) })
}

// reportProgress sends a change of the worker's state at once, except those between slices. It sends
// other progress only if the agent has sent nothing about the worker for maxSilence.
func (w *hostedWorker) reportProgress(p live.Progress) {
	p.Live = nil // the intervals contain these figures
	w.guard.Lock()
	last := w.last
	turns := last == nil || p.Warming != last.Warming || p.Settled != last.Settled || p.Paused != last.Paused && (p.Warming || !w.block)
	w.last = &p
	w.guard.Unlock()
	if turns || w.quiet.isSilent() {
		w.sendLive(workerEvent{Progress: &p}, turns)
	}
}

// reportInterval keeps an interval. It also sends the interval if the byte budget allows. Each
// message repeats the last progress, since earlier messages may be lost.
func (w *hostedWorker) reportInterval(i worker.Interval) {
	w.guard.Lock()
	w.intervals.Add(i)
	last := w.last
	w.guard.Unlock()
	w.sendLive(workerEvent{Interval: &i, Progress: last}, false)
}

// sendLive sends a message that may be lost. Unless must is true, the byte budget may prevent this.
func (w *hostedWorker) sendLive(t workerEvent, must bool) {
	message, err := encodeLive(t)
	subject := w.agent.credentials.LiveSubject(w.agent.Name, w.run, w.name)
	if err == nil && (w.quiet.trySpend(len(subject)+len(message)) || must) {
		_ = w.agent.conn.Publish(subject, message)
	}
}

// encodeLive encodes a message that may be lost as a line of JSON, followed by the interval's
// histogram in binary form. Inside the JSON, the histogram would be longer (base64).
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

// decodeWorkerEvent decodes an agent's message about a worker.
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
	// keptSendTimeout limits the time for sending a message that must not be lost.
	keptSendTimeout = 5 * time.Minute
	partHeader      = "Wl-Part"  // header with the part's number and the number of parts, as in 2/3
	aboutHeader     = "Wl-About" // header with the run and the worker
)

// aboutWorker returns the value of aboutHeader. A worker's name has a random part, so a message is
// bound to one order of one trial.
func aboutWorker(run, worker string) string { return run + "." + worker }

// sendKept sends a message that must not be lost.
func (w *hostedWorker) sendKept(ctx context.Context, what string, t workerEvent) {
	w.sending.Lock()
	defer w.sending.Unlock()
	whole, err := json.Marshal(t)
	if err == nil {
		err = w.sendParts(ctx, w.agent.credentials.KeptSubject(w.agent.Name), what, bytes.NewReader(whole), int64(len(whole)))
	}
	if err != nil {
		w.agent.report(fmt.Sprintf("worker %s: the message %s was not sent to the controller: %v", w.name, what, err))
	}
}

// sendParts sends a text of this many bytes in parts. It sends each part again until the controller
// has it.
func (w *hostedWorker) sendParts(ctx context.Context, subject, what string, from io.Reader, size int64) error {
	ctx, cancel := context.WithTimeout(ctx, keptSendTimeout)
	defer cancel()
	parts := max(1, (size+maxMessageBytes-1)/maxMessageBytes)
	for i := range parts {
		m := nats.NewMsg(subject)
		m.Data = make([]byte, min(maxMessageBytes, size-i*maxMessageBytes))
		if _, err := io.ReadFull(from, m.Data); err != nil {
			return err
		}
		m.Header.Set(aboutHeader, aboutWorker(w.run, w.name))
		m.Header.Set(partHeader, fmt.Sprintf("%d/%d", i+1, parts))
		if err := w.agent.got.send(ctx, w.agent.conn, m, fmt.Sprintf("%s/%s/%s/%d", w.run, w.name, what, i)); err != nil {
			return err
		}
	}
	return nil
}

// uploadSamples sends the worker's file of samples to the controller.
func (w *hostedWorker) uploadSamples(ctx context.Context) (*sentSamples, error) {
	file, err := os.Open(w.samples)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	status, err := file.Stat()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	sent := &sentSamples{Bytes: status.Size()}
	err = w.sendParts(ctx, w.agent.credentials.SampleSubject(w.agent.Name), "samples", io.TeeReader(file, sum), sent.Bytes)
	sent.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return sent, err
}
