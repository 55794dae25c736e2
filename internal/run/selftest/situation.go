// Package selftest disturbs real trials and reports which checks noticed the disturbance. It
// answers two questions about this machine: which disturbances does wirelab notice, and which
// undisturbed trials does it refuse?
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
	"time"

	"wirelab.dev/internal/base/system"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/worker"
)

// A Situation is a disturbance that makes figures false, together with a harmless twin.
type Situation struct {
	Name string `json:"name"`
	Lie  string `json:"lie"`  // describes the disturbance
	Twin string `json:"twin"` // describes the harmless form of the disturbance
	// Expect names the checks that can notice the disturbance, or the first words of warnings.
	// Other checks do not count: they object for other reasons.
	Expect []string `json:"expect"`

	needs     []requirement
	cell      trialCell
	lie, twin stageAction
}

// A stageAction starts or prepares a disturbance. A nil stageAction does nothing.
type stageAction func(*Stage) error

// A trialCell configures a trial. A field with the zero value gets a default.
type trialCell struct {
	variant           string
	workload          string
	request, response int
	clients           int
	connection        scenario.ConnectionMode
	load              scenario.Load
	network           scenario.Network
	samples           bool
	cold              bool // true for a trial without a warm-up
}

// trialWindow is the length of a trial's window. It is longer than the period of any disturbance,
// but keeps the self-test down to minutes.
const trialWindow = 500 * time.Millisecond

// trialWarmUp limits the length of the warm-up before the window.
var trialWarmUp = scenario.WarmUp{AtLeast: scenario.Duration(200 * time.Millisecond), AtMost: scenario.Duration(600 * time.Millisecond)}

func (c trialCell) withDefaults() trialCell {
	c.variant, c.workload = cmp.Or(c.variant, "tcp"), cmp.Or(c.workload, "echo")
	if c.workload == "echo" && c.request == 0 {
		c.request, c.response = 64, 64
	}
	c.clients, c.load = cmp.Or(c.clients, 4), cmp.Or(c.load, closedLoopFor(trialWindow))
	return c
}

// scenario returns a scenario that has only one trial, of this cell.
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

// A machineInfo holds the facts about this machine on which situations depend.
type machineInfo struct {
	placement host.Placement
	// wide allows disturbances of all programs on the machine.
	wide bool
}

// A requirement returns "" or the reason why this machine cannot run a situation.
type requirement func(machineInfo) string

// A Stage holds one disturbance and its trial. Only one goroutine may run actions on a Stage.
type Stage struct {
	// ctx ends when the trial ends. Everything that an action starts ends with ctx.
	ctx context.Context
	// lab runs the trial. Actions may change its placement and its targets.
	lab *lab.Lab
	// directory is the trial's own folder. The cleanupPlayer removes it after the trial.
	directory string
	// program is the command that starts a disturbing process: wirelab itself with arguments.
	program []string
	// cell configures the trial. Actions may change it.
	cell trialCell

	launching []func(worker.Role, *worker.Launch)
	inWindow  []func()
	undo      []func() error
	acting    sync.WaitGroup // waits for the functions of inWindow
	failed    error          // the first error of an action that ran when a worker was started

	guard  sync.Mutex // guards the fields below
	pids   map[worker.Role]int
	opened bool
}

// onLaunchOf calls change before the lab starts the worker with a role.
func (s *Stage) onLaunchOf(role worker.Role, change func(*worker.Launch)) {
	s.launching = append(s.launching, func(launched worker.Role, l *worker.Launch) {
		if launched == role {
			change(l)
		}
	})
}

// whenWindowOpens calls a function once, soon after the window has opened. The stage does not end
// before the function returns.
func (s *Stage) whenWindowOpens(do func()) { s.inWindow = append(s.inWindow, do) }

// atEnd registers a function to call after the trial. Functions are called in reverse order.
func (s *Stage) atEnd(undo func() error) { s.undo = append(s.undo, undo) }

// pid returns the process number of the worker with a role, or 0 if it has not started.
func (s *Stage) pid(role worker.Role) int {
	s.guard.Lock()
	defer s.guard.Unlock()
	return s.pids[role]
}

// launch changes how a worker is started. The lab calls it before it starts each worker.
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

// observe starts the functions of inWindow at the first progress event inside the window.
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
		s.acting.Go(do) // returns when ctx ends, if not earlier
	}
}

// undoAll calls the functions of atEnd. ctx must have ended.
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
	warnings []string // which CPUs or priority the process could not get
}

// Limits on how long a disturbing process may take to start and to end.
const (
	disturberStartTimeout = 5 * time.Second
	disturberEndTimeout   = 3 * time.Second
)

// start starts a disturbing process and waits until it is ready. undoAll ends the process.
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
	// Without StartPinned, the kernel does not kill the process when wirelab ends.
	if _, outlives := p.(*cleanupPlayer); outlives {
		system.OwnSession(command)
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
		_ = command.Wait() // the exit code does not matter
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

// newFolder makes the stage's folder, and starts the cleanupPlayer that later removes the folder.
func (s *Stage) newFolder() (err error) {
	if s.directory, err = os.MkdirTemp("", "wirelab-selftest-"); err != nil {
		return fmt.Errorf("%w: %w", errCannotStage, err)
	}
	if _, err = s.start(&cleanupPlayer{Folder: s.directory, Groups: host.QuotaGroupFolders(controlGroupName())}, host.StartOptions{}); err != nil {
		return fmt.Errorf("%w: %w", errCannotStage, errors.Join(err, os.RemoveAll(s.directory)))
	}
	return nil
}

// errCannotStage is wrapped by an error that prevents all situations.
var errCannotStage = errors.New("no situation can be staged")

// labPlayer is a second lab that measures until ctx ends. It calls ready when its own window opens.
type labPlayer struct {
	Worker []string `json:"worker"`
	Folder string   `json:"folder"` // folder for the second lab's run
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

// createRun creates a run for the trials of a scenario.
func createRun(directory string, s *scenario.Scenario) (*record.Run, error) {
	plan := s.Plan()
	return record.Create(directory, record.Manifest{
		Version: record.Version, Name: s.Name, Status: record.Running, Seed: s.Seed, Started: time.Now(),
		Trials: len(plan), Order: lab.ManifestOrder(plan), Scenario: json.RawMessage(`{}`), Host: json.RawMessage(`{}`),
	})
}
