// Package selftest disturbs real trials, and reports how the judge judged them. It answers two
// questions about this machine: which disturbances does wirelab notice, and which undisturbed
// trials does it refuse?
//
//		situation ──> lie:  disturbance + trial ──> record ─┬─> noticed? by which check?
//		          └─> twin: its harmless form + trial ──> record ─┘   how far did the figure move?
//
//	 1. Each situation has a cell, a lie and a twin. The lie is a disturbance that makes
//	    the cell's figures false. The twin is the same disturbance without its effect.
//	 2. Examine runs both in a real lab, with real worker processes. A Stage starts the
//	    disturbance, and ends it when the trial ends.
//	 3. The checks in the records give the verdict. A lie that no check noticed is harmless
//	    if its figures are close to the twin's figures.
//
// Disturbers are separate processes (RunDisturber), so that their CPU time does not count as
// wirelab's. The kernel kills them when wirelab ends, except the cleanupPlayer.
//
// This package must not judge: it uses only the checks that the judge wrote into the records.
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
	Lie  string `json:"lie"`  // a sentence that describes the disturbance
	Twin string `json:"twin"` // a sentence that describes the harmless form of the disturbance
	// Expect names the checks that may notice the lie, or the beginnings of such warnings.
	// Other checks do not count, since they object for other reasons.
	Expect []string `json:"expect"`

	needs     []requirement
	cell      trialCell
	lie, twin stageAction
}

// A stageAction stages a disturbance. A nil action stages nothing.
type stageAction func(*Stage) error

// A trialCell is the configuration of a trial. Fields with zero values get defaults.
type trialCell struct {
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

// trialWindow is the length of a trial's window. It is longer than the period of each disturbance,
// and short enough for the self-test to take only minutes.
const trialWindow = 500 * time.Millisecond

// trialWarmUp limits the time before the window.
var trialWarmUp = scenario.WarmUp{AtLeast: scenario.Duration(200 * time.Millisecond), AtMost: scenario.Duration(600 * time.Millisecond)}

func (c trialCell) withDefaults() trialCell {
	c.variant, c.workload = cmp.Or(c.variant, "tcp"), cmp.Or(c.workload, "echo")
	if c.workload == "echo" && c.request == 0 {
		c.request, c.response = 64, 64
	}
	c.clients, c.load = cmp.Or(c.clients, 4), cmp.Or(c.load, closedLoopFor(trialWindow))
	return c
}

// scenario returns the scenario with one trial of the cell.
func (c trialCell) scenario() (*scenario.Scenario, error) {
	c = c.withDefaults()
	variants, err := scenario.ParseVariants(c.variant)
	if err != nil {
		return nil, err
	}
	part := scenario.Part{
		Name: "selftest", Stacks: variants, Workload: c.workload, Clients: []int{c.clients}, Repeats: 1,
		Sizes:      []scenario.Payload{{Request: scenario.Size(c.request), Response: scenario.Size(c.response)}},
		Connection: scenario.Connection{Mode: c.connection}, Network: c.network,
		Load: c.load, WarmUp: trialWarmUp, Samples: c.samples,
	}
	if c.cold {
		part.WarmUp = scenario.WarmUp{}
	}
	return &scenario.Scenario{Version: scenario.Version, Name: "selftest", Seed: 1, Parts: []scenario.Part{part}}, nil
}

func closedLoopFor(d time.Duration) scenario.Load {
	return scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(d)}
}

func constantRate(perSecond float64, d time.Duration) scenario.Load {
	return scenario.Load{Model: scenario.Open, Rate: perSecond, Arrivals: scenario.Constant, Duration: scenario.Duration(d)}
}

// A machineInfo holds the properties of this machine that situations depend on.
type machineInfo struct {
	placement host.Placement
	// wide allows disturbances of all programs of the machine.
	wide bool
}

// A requirement returns the reason why a situation cannot be staged on this machine, or "".
type requirement func(machineInfo) string

// A Stage holds one disturbance during one trial. Actions use it from one goroutine.
type Stage struct {
	// ctx ends with the trial. Everything that an action starts ends with ctx.
	ctx context.Context
	// lab runs the trial. Actions may change its placement and its targets.
	lab *lab.Lab
	// directory is the folder of this trial. The cleanupPlayer removes it after the trial.
	directory string
	// program is the command that starts a disturber: wirelab's own program with arguments.
	program []string
	// cell is the configuration that the trial measures. Acts may change it.
	cell trialCell

	launching []func(worker.Role, *worker.Launch)
	inWindow  []func()
	undo      []func() error
	acting    sync.WaitGroup // the running functions of inWindow
	failed    error          // the first error of an action at a worker's start

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

// whenWindowOpens calls a function once, within 250 ms after the window has opened. The stage waits
// until the function returns.
func (s *Stage) whenWindowOpens(do func()) { s.inWindow = append(s.inWindow, do) }

// atEnd registers a function to run after the trial. The last registered function runs first.
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

// observe runs the functions that wait for the window, at the first progress in it.
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
		s.acting.Go(do) // ends with ctx at the latest
	}
}

// undoAll undoes everything that was staged. ctx must have ended.
func (s *Stage) undoAll() error {
	s.acting.Wait()
	var errs []error
	for _, undo := range slices.Backward(s.undo) {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}

type runningDisturber struct {
	address  string
	pid      int
	warnings []string // CPUs or a priority that the disturber did not get
}

// disturberStartTimeout limits the start of a disturber, disturberEndTimeout its end.
const (
	disturberStartTimeout = 5 * time.Second
	disturberEndTimeout   = 3 * time.Second
)

// start starts a disturber and waits until it is ready. The stage ends it.
func (s *Stage) start(p player, in host.StartOptions) (runningDisturber, error) {
	text, err := json.Marshal(map[string]any{"player": playerName(p), "as": p})
	if err != nil {
		return runningDisturber{}, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.ctx)) // ends with the stage
	command := exec.CommandContext(ctx, s.program[0], s.program[1:]...)
	command.WaitDelay = time.Second
	input, inputErr := command.StdinPipe()
	output, outputErr := command.StdoutPipe()
	if err := errors.Join(inputErr, outputErr); err != nil {
		cancel()
		return runningDisturber{}, err
	}
	var warnings []string
	if _, outlives := p.(*cleanupPlayer); outlives { // the kernel does not kill it with this process
		command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		err = command.Start()
	} else {
		warnings, err = host.StartPinned(command, in)
	}
	if err != nil {
		cancel()
		return runningDisturber{}, err
	}
	s.atEnd(func() error {
		defer time.AfterFunc(disturberEndTimeout, cancel).Stop()
		_ = input.Close()
		_ = command.Wait() // how it ends does not matter
		cancel()
		return nil
	})
	defer time.AfterFunc(disturberStartTimeout, cancel).Stop()
	if _, err := input.Write(append(text, '\n')); err != nil {
		return runningDisturber{}, fmt.Errorf("start a disturbing process: %w", err)
	}
	line, err := bufio.NewReader(output).ReadBytes('\n')
	if err != nil {
		return runningDisturber{}, fmt.Errorf("a disturbing process did not start: %w", err)
	}
	var r readyLine
	if err := json.Unmarshal(line, &r); err != nil || r.Error != "" {
		return runningDisturber{}, fmt.Errorf("a disturbing process did not start: %s", r.Error)
	}
	return runningDisturber{r.Address, command.Process.Pid, warnings}, nil
}

// newFolder makes the stage's folder, and starts the cleanupPlayer, which removes it later.
func (s *Stage) newFolder() (err error) {
	if s.directory, err = os.MkdirTemp("", "wirelab-selftest-"); err != nil {
		return fmt.Errorf("%w: %w", errCannotStage, err)
	}
	if _, err = s.start(&cleanupPlayer{Folder: s.directory, Groups: host.QuotaGroupFolders(controlGroupName())}, host.StartOptions{}); err != nil {
		return fmt.Errorf("%w: %w", errCannotStage, errors.Join(err, os.RemoveAll(s.directory)))
	}
	return nil
}

// errCannotStage is wrapped by errors that keep all situations from being staged.
var errCannotStage = errors.New("no situation can be staged")

// labPlayer is a second lab, which measures until ctx ends. It calls ready when its window opens.
type labPlayer struct {
	Worker []string `json:"worker"`
	Folder string   `json:"folder"` // for its run
}

func (o *labPlayer) play(ctx context.Context, ready func(string)) error {
	s, err := trialCell{load: closedLoopFor(10 * time.Second)}.scenario()
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
		Trials: len(plan), Order: lab.ManifestOrder(plan), Scenario: json.RawMessage(`{}`), Host: json.RawMessage(`{}`),
	})
}
