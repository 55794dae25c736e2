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
	"syscall"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

const (
	// maxEventBytes bounds a line of a worker's output. A result with the
	// histograms of a long trial is tens of kilobytes.
	maxEventBytes = 16 << 20
	// stopGrace is the time that a worker may take to end after its input has ended.
	stopGrace = 5 * time.Second
)

// Launch is a worker to be started.
type Launch struct {
	Name    string   // for errors, as in "server tcp"
	Command []string // the worker's program and arguments
	Spec    Spec
	In      host.Surroundings
	Env     []string // added to wirelab's own environment
	// Silence bounds the time between two events until the result; 0 means no
	// bound. It applies to clients, which report progress.
	Silence    time.Duration
	OnProgress func(live.Progress) // may be nil; called, as OnInterval is, from one goroutine
	OnInterval func(Interval)      // may be nil
	OnStart    func(pid int)       // may be nil; called once it has started
}

// Process is a started worker. Stop or Kill must be called.
type Process struct {
	name    string
	without []string // CPUs or priority that it did not get
	command *exec.Cmd
	input   io.WriteCloser
	telling sync.Mutex // one line at a time
	stderr  *tail
	ready   chan Ready  // at most one
	result  chan Result // at most one
	able    chan Capabilities
	ended   chan struct{}
	failure error // set before ended is closed
	kill    context.CancelCauseFunc
}

// An Error says what went wrong with a worker, with its last lines on standard error.
type Error struct {
	Worker   string
	What     string
	Reported bool // by an error event of the worker's own
	Stderr   []string
}

func (e *Error) Error() string {
	text := e.Worker + ": " + e.What
	if len(e.Stderr) > 0 {
		text += "; its last lines on standard error:\n  " + strings.Join(e.Stderr, "\n  ")
	}
	return text
}

// Start starts a worker and hands it its spec.
func Start(l Launch) (*Process, error) {
	spec, err := json.Marshal(l.Spec)
	if err != nil {
		return nil, fmt.Errorf("%s: encode the spec: %w", l.Name, err)
	}
	killed, kill := context.WithCancelCause(context.Background())
	p := &Process{
		name:    l.Name,
		command: exec.CommandContext(killed, l.Command[0], l.Command[1:]...),
		kill:    kill,
		stderr:  &tail{},
		ready:   make(chan Ready, 1),
		result:  make(chan Result, 1),
		able:    make(chan Capabilities, 1),
		ended:   make(chan struct{}),
	}
	p.command.Cancel = func() error {
		_ = p.input.Close()
		// The worker leads a session, and so a group, of its own: this
		// reaches what it has started, too.
		return syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
	}
	if len(l.Env) > 0 {
		p.command.Env = append(os.Environ(), l.Env...)
	}
	p.command.Stderr = p.stderr
	p.command.WaitDelay = time.Second // a grandchild may keep the output open
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
	go p.follow(killed, output, l) // ends when the worker's output does
	p.telling.Lock()
	_, err = p.input.Write(append(spec, '\n'))
	p.telling.Unlock()
	if err != nil {
		go func() { // mostly the worker has died, and its exit code and last lines explain more
			select {
			case <-p.ended:
			case <-time.After(stopGrace):
				p.killBecause("did not read its spec: " + err.Error())
			}
		}()
	}
	return p, nil
}

// follow reads the worker's events until its output ends, and waits for its exit. The
// cause of killed is why it was killed.
func (p *Process) follow(killed context.Context, output io.Reader, l Launch) {
	failed := p.readEvents(output, l)
	if failed != nil {
		_ = p.input.Close() // it may still end by itself
		defer time.AfterFunc(stopGrace, func() { p.killBecause(fmt.Sprintf("did not end within %v after its error and was killed", stopGrace)) }).Stop()
	}
	_, _ = io.Copy(io.Discard, output)
	err := p.command.Wait()
	p.failure = cmp.Or(failed, context.Cause(killed))
	if p.failure == nil && err != nil {
		p.failure = p.fault("ended with " + err.Error())
	}
	close(p.ended)
}

// readEvents handles events until the output ends, or until an error event, which it returns. It
// kills a worker that is silent for too long before its result, or that breaks the contract.
func (p *Process) readEvents(output io.Reader, l Launch) error {
	const forever = math.MaxInt64
	patience := time.Duration(forever)
	if l.Silence > 0 {
		patience = l.Silence
	}
	silence := time.AfterFunc(patience, func() {
		p.killBecause(fmt.Sprintf("printed nothing for %v and was killed", l.Silence))
	})
	defer silence.Stop()
	lines := bufio.NewScanner(output)
	lines.Buffer(make([]byte, 64<<10), maxEventBytes)
	for lines.Scan() {
		silence.Reset(patience)
		event, err := parseEvent(lines.Bytes())
		if err != nil {
			p.killBecause(fmt.Sprintf("printed a line that is not an event of the contract (%v): %s", err, Excerpt(lines.Text())))
			return nil
		}
		switch {
		case event.Ready != nil && event.Ready.Contract != Contract:
			p.killBecause(fmt.Sprintf("speaks version %d of the contract, wirelab version %d", event.Ready.Contract, Contract))
			return nil
		case event.Ready != nil:
			offer(p.ready, *event.Ready)
		case event.Progress != nil && l.OnProgress != nil:
			l.OnProgress(*event.Progress)
		case event.Interval != nil && l.OnInterval != nil:
			l.OnInterval(*event.Interval)
		case event.Result != nil:
			patience = forever
			silence.Reset(patience)
			if err := event.Result.Client.workOut(l.Spec); err != nil {
				p.killBecause("wrote calls that cannot be its own: " + err.Error())
				return nil
			}
			offer(p.result, *event.Result)
		case event.Capabilities != nil:
			offer(p.able, *event.Capabilities)
		case event.Error != nil:
			fault := p.fault(event.Error.Message)
			fault.Reported = true
			return fault
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		p.killBecause("its output cannot be read: " + err.Error())
	}
	return nil
}

// Ready waits until the worker is ready.
func (p *Process) Ready(ctx context.Context) (Ready, error) {
	return await(ctx, p, p.ready, "ready")
}

// Result waits for the worker's last event.
func (p *Process) Result(ctx context.Context) (Result, error) {
	return await(ctx, p, p.result, "result")
}

// Capabilities waits until the worker has listed its capabilities.
func (p *Process) Capabilities(ctx context.Context) (Capabilities, error) {
	return await(ctx, p, p.able, "capabilities")
}

// Warnings names CPUs or a priority that the worker did not get.
func (p *Process) Warnings() []string { return p.without }

// PID returns the worker's process number.
func (p *Process) PID() int { return p.command.Process.Pid }

// CPU returns the processor time of the worker's whole life. The worker must have ended.
func (p *Process) CPU() time.Duration {
	return p.command.ProcessState.UserTime() + p.command.ProcessState.SystemTime()
}

// Wait waits until the worker has ended, and returns its failure, if any.
func (p *Process) Wait() error {
	<-p.ended
	return p.failure
}

// Stop ends the worker's input and waits until the worker has ended. It kills one that
// does not end. It returns the worker's failure, if any.
func (p *Process) Stop() error {
	_ = p.input.Close()
	select {
	case <-p.ended:
	case <-time.After(stopGrace):
		p.killBecause(fmt.Sprintf("did not end within %v after its input ended and was killed", stopGrace))
		<-p.ended
	}
	return p.failure
}

// Kill kills the worker and everything that it has started, and waits for its exit.
func (p *Process) Kill() {
	p.killBecause("was killed")
	<-p.ended
}

// killBecause kills the worker. Only the first reason counts.
func (p *Process) killBecause(what string) { p.kill(p.fault(what)) }

// fault returns an error with the last lines of standard error. It leaves them out if the worker
// has reported an error: they only repeat it.
func (p *Process) fault(what string) *Error {
	more := slices.DeleteFunc(p.stderr.lines(), func(line string) bool {
		return strings.Contains(what, strings.TrimSpace(strings.TrimPrefix(line, "wirelab: ")))
	})
	return &Error{Worker: p.name, What: what, Stderr: more}
}

func await[T any](ctx context.Context, p *Process, from <-chan T, what string) (got T, err error) {
	select {
	case got = <-from:
		return got, nil
	case <-p.ended:
		err = cmp.Or(p.failure, error(p.fault("ended without the event "+what)))
	case <-ctx.Done():
		err = p.fault(fmt.Sprintf("no event %s: %v", what, context.Cause(ctx)))
	}
	select {
	case got = <-from: // the event had come, too
		return got, nil
	default:
		return got, err
	}
}

func offer[T any](to chan T, value T) {
	select {
	case to <- value:
	default: // only the first event counts
	}
}

type tail struct {
	guard sync.Mutex
	text  []byte
}

const (
	tailBytes = 8 << 10
	tailLines = 10
)

func (t *tail) Write(b []byte) (int, error) {
	t.guard.Lock()
	defer t.guard.Unlock()
	t.text = append(t.text, b...)
	if extra := len(t.text) - tailBytes; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(b), nil
}

func (t *tail) lines() []string {
	t.guard.Lock()
	defer t.guard.Unlock()
	text := strings.TrimSpace(string(t.text))
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-tailLines):]
}

// Excerpt quotes a line, up to 200 bytes of it.
func Excerpt(line string) string {
	const most = 200
	if len(line) > most {
		return fmt.Sprintf("%q … (%d bytes)", line[:most], len(line))
	}
	return fmt.Sprintf("%q", line)
}

// Tell sends an order to a client. A client that does not know the control ignores it.
func (p *Process) Tell(o Order) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	p.telling.Lock()
	defer p.telling.Unlock()
	if _, err := p.input.Write(append(line, '\n')); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		return fmt.Errorf("%s: send it the control %q: %w", p.name, o.Control, err)
	}
	return nil
}

// A Sentinel watches CPUs from a process of its own. A nil Sentinel watches nothing, and the
// record then says that nothing was watched.
type Sentinel struct{ process *Process }

// sentinelPatience limits the wait for a sentinel's result, which it prints at once.
const sentinelPatience = 5 * time.Second

// StartSentinel begins to watch with a process of wirelab's own program. It returns nil if that
// does not start.
func StartSentinel(program []string, in host.Surroundings, watch []probe.SentinelCPU) *Sentinel {
	process, err := Start(Launch{
		Name: "sentinel", Command: program, In: in,
		Spec: Spec{Contract: Contract, Role: SentinelRole, Watch: watch},
	})
	if err != nil {
		return nil
	}
	return &Sentinel{process: process}
}

// PIDs returns the sentinel's process number, if it runs.
func (s *Sentinel) PIDs() []int {
	if s == nil {
		return nil
	}
	return []int{s.process.PID()}
}

// Stop ends the watch. It returns the observations, and the CPU time that watching took.
func (s *Sentinel) Stop(ctx context.Context) (seen []probe.Watched, cost time.Duration) {
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
	ctx, cancel := context.WithTimeout(ctx, sentinelPatience)
	defer cancel()
	if result, err := s.process.Result(ctx); err == nil {
		seen = result.Watched
	}
	return seen, cost
}
