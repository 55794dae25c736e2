// Package selftest disturbs real trials, and reports how the judge judged them. It answers two
// questions about the machine it runs on: which disturbances does wirelab notice there, and
// which undisturbed trials does it refuse?
//
//		situation ──> lie:  disturbance + trial ──> record ─┬─> noticed? by which check?
//		          └─> twin: its harmless form + trial ──> record ─┘   how far did the figure move?
//
//	 1. Each situation has a cell, a lie and a twin. The lie is a disturbance that makes
//	    the cell's figures false; the twin is the same disturbance without its effect.
//	 2. Examine runs both through a real lab, with real worker processes, while a Stage
//	    keeps the disturbance up. The stage ends it when the trial ends, in whatever way.
//	 3. The verdict is read off the records' checks. The twin is also the reference: how
//	    far the lie moved the figure tells a harmless lie from one that passed.
//
// Disturbers are processes of their own (Act), so that their CPU time is not taken for wirelab's.
// The kernel kills them when wirelab ends, but for the one that then removes what the stage leaves.
//
// This package must not judge: it reads what the judge wrote, and never what was staged.
package selftest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/worker"
)

// A Situation is one way in which a measurement can be false, and its harmless twin.
type Situation struct {
	Name string `json:"name"`
	Lie  string `json:"lie"`  // what is staged, in a sentence
	Twin string `json:"twin"` // its harmless form
	// Expect names the checks that may notice it, or the beginning of a warning that
	// does. Others do not count: a trial that was refused for another reason does not
	// show that the disturbance was noticed.
	Expect []string `json:"expect"`

	needs     []need
	cell      cell
	lie, twin act
}

// act stages a disturbance. Nil stages nothing.
type act func(*Stage) error

// A cell is one configuration to measure. Zero fields take defaults.
type cell struct {
	variant           string
	workload          string
	request, response int
	clients           int
	connection        scenario.ConnectionMode
	load              scenario.Load
	network           scenario.Network
	samples           bool
	cold              bool // without a warm-up
}

// window holds several periods of every periodic disturbance, and is short enough for the whole
// self-test to take minutes.
const window = 500 * time.Millisecond

// warmUp limits the time before the window.
var warmUp = scenario.WarmUp{AtLeast: scenario.Duration(200 * time.Millisecond), AtMost: scenario.Duration(600 * time.Millisecond)}

func (c cell) withDefaults() cell {
	c.variant, c.workload = cmp.Or(c.variant, "tcp"), cmp.Or(c.workload, "echo")
	if c.workload == "echo" && c.request == 0 {
		c.request, c.response = 64, 64
	}
	c.clients, c.load = cmp.Or(c.clients, 4), cmp.Or(c.load, closedFor(window))
	return c
}

// scenario returns the scenario of the cell's one trial.
func (c cell) scenario() (*scenario.Scenario, error) {
	c = c.withDefaults()
	variants, err := scenario.ParseVariants(c.variant)
	if err != nil {
		return nil, err
	}
	part := scenario.Part{
		Name: "selftest", Stacks: variants, Workload: c.workload, Clients: []int{c.clients}, Repeats: 1,
		Sizes:      []scenario.Payload{{Request: scenario.Size(c.request), Response: scenario.Size(c.response)}},
		Connection: scenario.Connection{Mode: c.connection}, Network: c.network,
		Load: c.load, WarmUp: warmUp, Samples: c.samples,
	}
	if c.cold {
		part.WarmUp = scenario.WarmUp{}
	}
	return &scenario.Scenario{Version: scenario.Version, Name: "selftest", Seed: 1, Parts: []scenario.Part{part}}, nil
}

func closedFor(d time.Duration) scenario.Load {
	return scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(d)}
}

func constantRate(perSecond float64, d time.Duration) scenario.Load {
	return scenario.Load{Model: scenario.Open, Rate: perSecond, Arrivals: scenario.Constant, Duration: scenario.Duration(d)}
}

// A machine describes this machine, as far as situations depend on it.
type machine struct {
	placement host.Placement
	// wide allows disturbances of all programs of the machine.
	wide bool
}

// A need returns the reason why a situation cannot be staged here, or "".
type need func(machine) string

// A Stage keeps one disturbance up during one trial. Acts use it from one goroutine.
type Stage struct {
	// ctx ends with the trial. Whatever an act starts ends with it.
	ctx context.Context
	// lab runs the trial. Acts may change its placement and its targets.
	lab *lab.Lab
	// directory is the trial's own. A disturber removes it after the trial.
	directory string
	// program is the command that starts a disturber: wirelab's own program with arguments.
	program []string
	// cell is the configuration that the trial measures. Acts may change it.
	cell cell

	launching []func(worker.Role, *worker.Launch)
	inWindow  []func()
	undo      []func() error
	acting    sync.WaitGroup // the running functions of inWindow
	failed    error          // the first error of staging at a worker's start

	guard  sync.Mutex // guards the fields below
	pids   map[worker.Role]int
	opened bool
}

// onLaunchOf changes how the worker of a role is launched.
func (s *Stage) onLaunchOf(role worker.Role, change func(*worker.Launch)) {
	s.launching = append(s.launching, func(launched worker.Role, l *worker.Launch) {
		if launched == role {
			change(l)
		}
	})
}

// whenWindowOpens calls a function once after the window has opened, at most one progress
// report (250 ms) later. The stage waits until it returns.
func (s *Stage) whenWindowOpens(do func()) { s.inWindow = append(s.inWindow, do) }

// atEnd registers a function that runs when the trial has ended, the last registered first.
func (s *Stage) atEnd(undo func() error) { s.undo = append(s.undo, undo) }

// pid returns the process number of the role's worker, once it has started.
func (s *Stage) pid(role worker.Role) int {
	s.guard.Lock()
	defer s.guard.Unlock()
	return s.pids[role]
}

// launch changes a worker's launch. The lab calls it before it starts the worker.
func (s *Stage) launch(role worker.Role, l *worker.Launch) {
	for _, change := range s.launching {
		change(role, l)
	}
	started := l.OnStart
	l.OnStart = func(pid int) {
		s.guard.Lock()
		s.pids[role] = pid
		s.guard.Unlock()
		if started != nil {
			started(pid)
		}
	}
}

// observe runs the acts that wait for the window.
func (s *Stage) observe(e live.Event) {
	p, is := e.(live.Progress)
	if !is {
		return
	}
	s.guard.Lock()
	first := !p.Warming && !s.opened
	s.opened = s.opened || first
	s.guard.Unlock()
	if !first {
		return
	}
	for _, do := range s.inWindow {
		s.acting.Go(do) // ends by itself, or with ctx
	}
}

// end undoes everything that was staged. ctx must have ended.
func (s *Stage) end() error {
	s.acting.Wait()
	var errs []error
	for _, undo := range slices.Backward(s.undo) {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}

type actor struct {
	address  string
	pid      int
	warnings []string // CPUs or a priority that it did not get
}

// actorPatience limits the start of a disturber, actorGrace its end.
const (
	actorPatience = 5 * time.Second
	actorGrace    = 3 * time.Second
)

// start starts a disturber and waits until it is ready. The stage ends it.
func (s *Stage) start(p player, in host.Surroundings) (actor, error) {
	text, err := json.Marshal(map[string]any{"player": nameOf(p), "as": p})
	if err != nil {
		return actor{}, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.ctx)) // ends with the stage
	command := exec.CommandContext(ctx, s.program[0], s.program[1:]...)
	command.WaitDelay = time.Second
	input, inputErr := command.StdinPipe()
	output, outputErr := command.StdoutPipe()
	if err := errors.Join(inputErr, outputErr); err != nil {
		cancel()
		return actor{}, err
	}
	var warnings []string
	if _, outlives := p.(*clean); outlives { // the kernel does not kill it with this process
		command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		err = command.Start()
	} else {
		warnings, err = host.StartPinned(command, in)
	}
	if err != nil {
		cancel()
		return actor{}, err
	}
	s.atEnd(func() error {
		defer time.AfterFunc(actorGrace, cancel).Stop()
		_ = input.Close()
		_ = command.Wait() // how it ends does not matter
		cancel()
		return nil
	})
	defer time.AfterFunc(actorPatience, cancel).Stop()
	if _, err := input.Write(append(text, '\n')); err != nil {
		return actor{}, fmt.Errorf("start a disturber: %w", err)
	}
	line, err := bufio.NewReader(output).ReadBytes('\n')
	if err != nil {
		return actor{}, fmt.Errorf("a disturber did not get ready: %w", err)
	}
	var r readiness
	if err := json.Unmarshal(line, &r); err != nil || r.Error != "" {
		return actor{}, fmt.Errorf("a disturber did not get ready: %s", r.Error)
	}
	return actor{r.Address, command.Process.Pid, warnings}, nil
}

// newFolder makes the stage's folder, and starts what removes it.
func (s *Stage) newFolder() (err error) {
	if s.directory, err = os.MkdirTemp("", "wirelab-selftest-"); err != nil {
		return fmt.Errorf("%w: %w", errNoStage, err)
	}
	if _, err = s.start(&clean{Folder: s.directory, Groups: host.QuotaGroupFolders(groupName())}, host.Surroundings{}); err != nil {
		return fmt.Errorf("%w: %w", errNoStage, errors.Join(err, os.RemoveAll(s.directory)))
	}
	return nil
}

// errNoStage means that no situation can be staged.
var errNoStage = errors.New("nothing can be staged")

// other is a second wirelab, which measures until it is told to stop. It is ready when its
// window is open.
type other struct {
	Worker []string `json:"worker"`
	Folder string   `json:"folder"` // for its run
}

func (o *other) play(ctx context.Context, ready func(string)) error {
	s, err := cell{load: closedFor(10 * time.Second)}.scenario()
	if err != nil {
		return err
	}
	run, err := createRun(o.Folder, s)
	if err != nil {
		return err
	}
	l := lab.New(o.Worker)
	l.Observers = []live.Observer{(&Stage{inWindow: []func(){func() { ready("") }}}).observe}
	err = l.Run(ctx, s.Plan(), run)
	if ctx.Err() != nil {
		err = nil
	}
	return err
}

// createRun makes a run for the trials of a scenario.
func createRun(directory string, s *scenario.Scenario) (*record.Run, error) {
	plan := s.Plan()
	return record.Create(directory, record.Manifest{
		Version: record.Version, Name: s.Name, Status: record.Running, Seed: s.Seed, Started: time.Now(),
		Trials: len(plan), Order: lab.Order(plan), Scenario: json.RawMessage(`{}`), Host: json.RawMessage(`{}`),
	})
}
