package worker

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"wirelab.dev/internal/base/system"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/load"
)

const (
	// maxEventBytes bounds a line of a worker's output. The result of a long trial has histograms
	// of tens of kilobytes.
	maxEventBytes = 16 << 20
	// stopTimeout limits how long a worker may still run after its input has ended.
	stopTimeout = 5 * time.Second
)

// A Launch says how to start a worker, and what to call when the worker reports something.
type Launch struct {
	Name    string   // name of the worker in errors, for example "server tcp"
	Command []string // path and arguments of the worker's program
	Spec    Spec
	In      host.StartOptions
	Env     []string // variables to add to the environment
	// Traces becomes the worker's file descriptor 3, if the spec asks for traces.
	Traces *os.File
	// Silence bounds the time between two events before the result. 0 means that there is no bound.
	// Only clients have a bound, since only they report progress.
	Silence    time.Duration
	OnProgress func(live.Progress) // called for each progress event; may be nil
	OnInterval func(Interval)      // called for each interval event; may be nil
	OnStep     func(StepResult)    // called for each step event; may be nil
	OnStart    func(pid int)       // called when the process has started; may be nil
	OnReady    func()              // called when a worker on this machine is ready; may be nil
}

// Process is a worker that was started. The caller must call Stop or Kill.
type Process struct {
	name    string
	without []string // CPUs or a priority that the worker could not get
	command *exec.Cmd
	input   io.WriteCloser
	telling sync.Mutex   // guards input, to write whole lines, and turns
	turns   []load.Slice // the slices that the worker was sent
	stderr  *outputTail
	ready   chan Ready  // gets at most one value
	result  chan Result // gets at most one value
	able    chan Capabilities
	ended   chan struct{}
	failure error // set before ended is closed
	kill    context.CancelCauseFunc
}

// An Error says how a worker failed. It includes the last lines of the worker's standard error.
type Error struct {
	Worker   string
	What     string
	Reported bool // true if the worker reported the failure in an error event
	Stderr   []string
}

func (e *Error) Error() string {
	text := e.Worker + ": " + e.What
	if len(e.Stderr) > 0 {
		text += "; its last lines on standard error:\n  " + strings.Join(e.Stderr, "\n  ")
	}
	return text
}

// Start starts a worker and writes its spec to its standard input.
func Start(l Launch) (*Process, error) {
	l.Spec.Traces = l.Traces != nil
	spec, err := json.Marshal(l.Spec)
	if err != nil {
		return nil, fmt.Errorf("%s: encode the spec: %w", l.Name, err)
	}
	killed, kill := context.WithCancelCause(context.Background())
	p := &Process{
		name:    l.Name,
		command: exec.CommandContext(killed, l.Command[0], l.Command[1:]...),
		kill:    kill,
		stderr:  &outputTail{},
		ready:   make(chan Ready, 1),
		result:  make(chan Result, 1),
		able:    make(chan Capabilities, 1),
		ended:   make(chan struct{}),
	}
	p.command.Cancel = func() error {
		_ = p.input.Close()
		// The worker leads its own process group, so the signal also reaches its child processes.
		return system.KillGroup(p.command.Process.Pid)
	}
	if len(l.Env) > 0 {
		p.command.Env = append(os.Environ(), l.Env...)
	}
	if l.Traces != nil {
		p.command.ExtraFiles = []*os.File{l.Traces}
	}
	p.command.Stderr = p.stderr
	p.command.WaitDelay = time.Second // a process that the worker started may keep the output open
	if p.input, err = p.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("%s: %w", l.Name, err)
	}
	output, err := p.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Name, err)
	}
	if p.without, err = host.StartPinned(p.command, l.In); err != nil {
		return nil, fmt.Errorf("%s: %w", l.Name, err)
	}
	if l.OnStart != nil {
		l.OnStart(p.PID())
	}
	go p.readUntilExit(killed, output, l) // ends after the worker's output ends
	p.telling.Lock()
	_, err = p.input.Write(append(spec, '\n'))
	p.telling.Unlock()
	if err != nil {
		// The worker has probably died: its exit code and its last lines explain more.
		go func() {
			select {
			case <-p.ended:
			case <-time.After(stopTimeout):
				p.killWithReason("the worker did not read its spec and was killed: " + err.Error())
			}
		}()
	}
	return p, nil
}

// readUntilExit reads events until the worker's output ends, and waits for the worker's exit. The
// cause of the context killed says why the worker was killed.
func (p *Process) readUntilExit(killed context.Context, output io.Reader, l Launch) {
	failed := p.readEvents(output, l)
	if failed != nil {
		_ = p.input.Close() // a worker that has failed may now end by itself
		defer time.AfterFunc(stopTimeout, func() {
			p.killWithReason(fmt.Sprintf("the worker did not end within %v after its error and was killed", stopTimeout))
		}).Stop()
	}
	_, _ = io.Copy(io.Discard, output)
	err := p.command.Wait()
	p.failure = cmp.Or(failed, context.Cause(killed))
	if p.failure == nil && err != nil {
		p.failure = p.newError("the worker ended with " + err.Error())
	}
	close(p.ended)
}

// readEvents handles events until the output ends. It returns the error of the first error event.
// It kills a worker that breaks the contract or is silent for too long.
func (p *Process) readEvents(output io.Reader, l Launch) error {
	const forever = math.MaxInt64
	patience := time.Duration(forever)
	if l.Silence > 0 {
		patience = l.Silence
	}
	silence := time.AfterFunc(patience, func() {
		p.killWithReason(fmt.Sprintf("the worker printed nothing for %v and was killed", l.Silence))
	})
	defer silence.Stop()
	lines := bufio.NewScanner(output)
	lines.Buffer(make([]byte, 64<<10), maxEventBytes)
	for lines.Scan() {
		silence.Reset(patience)
		event, err := parseEvent(lines.Bytes())
		if err != nil {
			p.killWithReason(fmt.Sprintf("the worker printed a line that is not an event of the contract (%v), and was killed: %s", err, QuoteShortened(lines.Text())))
			return nil
		}
		switch {
		case event.Ready != nil && event.Ready.Contract != Contract:
			p.killWithReason(fmt.Sprintf("the worker implements version %d of the contract, but wirelab needs version %d: update the worker", event.Ready.Contract, Contract))
			return nil
		case event.Ready != nil:
			sendFirst(p.ready, *event.Ready)
			if l.OnReady != nil {
				l.OnReady()
			}
		case event.Progress != nil && l.OnProgress != nil:
			l.OnProgress(*event.Progress)
		case event.Interval != nil && l.OnInterval != nil:
			l.OnInterval(*event.Interval)
		case event.Step != nil && l.OnStep != nil:
			l.OnStep(*event.Step)
		case event.Result != nil:
			patience = forever
			silence.Reset(patience)
			p.telling.Lock()
			turns := p.turns
			p.telling.Unlock()
			if err := event.Result.Client.computeFromCalls(l.Spec, turns); err != nil {
				p.killWithReason("the worker reported impossible calls and was killed: " + err.Error())
				return nil
			}
			sendFirst(p.result, *event.Result)
		case event.Capabilities != nil:
			sendFirst(p.able, *event.Capabilities)
		case event.Error != nil:
			fault := p.newError(event.Error.Message)
			fault.Reported = true
			return fault
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		p.killWithReason("wirelab cannot read the worker's standard output: " + err.Error())
	}
	return nil
}

// Ready waits for the ready event.
func (p *Process) Ready(ctx context.Context) (Ready, error) {
	return awaitEvent(ctx, p, p.ready, "ready")
}

// Result waits for the result event.
func (p *Process) Result(ctx context.Context) (Result, error) {
	return awaitEvent(ctx, p, p.result, "result")
}

// Capabilities waits for the capabilities event.
func (p *Process) Capabilities(ctx context.Context) (Capabilities, error) {
	return awaitEvent(ctx, p, p.able, "capabilities")
}

// Warnings names the CPUs or the priority that the worker asked for but did not get.
func (p *Process) Warnings() []string { return p.without }

// PID returns the number of the worker's process.
func (p *Process) PID() int { return p.command.Process.Pid }

// CPU returns the CPU time that the worker used in its whole life. The worker must have ended.
func (p *Process) CPU() time.Duration {
	return p.command.ProcessState.UserTime() + p.command.ProcessState.SystemTime()
}

// Wait waits until the worker has ended. It returns the worker's failure, or nil.
func (p *Process) Wait() error {
	<-p.ended
	return p.failure
}

// Stop ends the worker's input and waits for the worker's end. It kills a worker that has not ended
// after stopTimeout. It returns the worker's failure, or nil.
func (p *Process) Stop() error {
	_ = p.input.Close()
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		p.killWithReason(fmt.Sprintf("the worker did not end within %v after its input ended and was killed", stopTimeout))
		<-p.ended
	}
	return p.failure
}

// Kill kills the worker and all processes that it has started. It waits for the worker's exit.
func (p *Process) Kill() {
	p.killWithReason("the worker was killed")
	<-p.ended
}

// killWithReason kills the worker. If it is called twice, only the first reason is kept.
func (p *Process) killWithReason(what string) { p.kill(p.newError(what)) }

// newError returns an Error with the last lines of the worker's standard error, except lines that
// only repeat what.
func (p *Process) newError(what string) *Error {
	more := slices.DeleteFunc(p.stderr.lastLines(), func(line string) bool {
		return strings.Contains(what, strings.TrimSpace(strings.TrimPrefix(line, "wirelab: ")))
	})
	return &Error{Worker: p.name, What: what, Stderr: more}
}

func awaitEvent[T any](ctx context.Context, p *Process, from <-chan T, what string) (got T, err error) {
	select {
	case got = <-from:
		return got, nil
	case <-p.ended:
		err = cmp.Or(p.failure, error(p.newError("the worker ended without the event "+what)))
	case <-ctx.Done():
		err = p.newError(fmt.Sprintf("the worker did not print the event %s: %v", what, context.Cause(ctx)))
	}
	select {
	case got = <-from: // the event has arrived as well
		return got, nil
	default:
		return got, err
	}
}

func sendFirst[T any](to chan T, value T) {
	select {
	case to <- value:
	default: // there is an earlier event, and only that one counts
	}
}

type outputTail struct {
	guard sync.Mutex
	text  []byte
}

const (
	maxTailBytes = 8 << 10
	maxTailLines = 10
)

func (t *outputTail) Write(b []byte) (int, error) {
	t.guard.Lock()
	defer t.guard.Unlock()
	t.text = append(t.text, b...)
	if extra := len(t.text) - maxTailBytes; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(b), nil
}

// lastLines returns the last lines, or those from a panic on, which say more than its end.
func (t *outputTail) lastLines() []string {
	t.guard.Lock()
	defer t.guard.Unlock()
	text := strings.TrimSpace(string(t.text))
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return lines[i:min(len(lines), i+maxTailLines)]
		}
	}
	return lines[max(0, len(lines)-maxTailLines):]
}

// QuoteShortened quotes the first 200 bytes of a line.
func QuoteShortened(line string) string {
	const most = 200
	if len(line) > most {
		return fmt.Sprintf("%q … (%d bytes)", line[:most], len(line))
	}
	return fmt.Sprintf("%q", line)
}

// SendControl sends a control to a client. The client ignores a control that it does not know.
func (p *Process) SendControl(o ControlOrder) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	p.telling.Lock()
	defer p.telling.Unlock()
	if o.Control == SlicesControl && p.turns == nil {
		p.turns = o.Slices
	}
	if _, err := p.input.Write(append(line, '\n')); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		return fmt.Errorf("%s: send the control %q to the worker: %w", p.name, o.Control, err)
	}
	return nil
}

// A Sentinel is a process that watches CPUs. A nil Sentinel does nothing.
type Sentinel struct{ process *Process }

// sentinelResultTimeout limits the wait for a sentinel's result. A sentinel prints it at once.
const sentinelResultTimeout = 5 * time.Second

// StartSentinel starts a sentinel. It returns nil if the program cannot be started.
func StartSentinel(program []string, in host.StartOptions, watch []probe.SentinelCPU) *Sentinel {
	process, err := Start(Launch{
		Name: "sentinel", Command: program, In: in,
		Spec: Spec{Contract: Contract, Role: SentinelRole, Watch: watch},
	})
	if err != nil {
		return nil
	}
	return &Sentinel{process: process}
}

// PIDs returns the number of the sentinel's process. It returns nil for a nil Sentinel.
func (s *Sentinel) PIDs() []int {
	if s == nil {
		return nil
	}
	return []int{s.process.PID()}
}

// Stop ends the sentinel and returns its observations. cost is the CPU time that it used.
func (s *Sentinel) Stop(ctx context.Context) (seen []probe.SentinelResult, cost time.Duration) {
	if s == nil {
		return nil, 0
	}
	if ctx.Err() != nil {
		s.process.Kill()
		return nil, 0
	}
	err := s.process.Stop()
	cost = s.process.CPU()
	if err != nil {
		return nil, cost
	}
	ctx, cancel := context.WithTimeout(ctx, sentinelResultTimeout)
	defer cancel()
	if result, err := s.process.Result(ctx); err == nil {
		seen = result.Watched
	}
	return seen, cost
}
