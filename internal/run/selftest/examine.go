package selftest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/worker"
)

// A Runner stages situations.
type Runner struct {
	Worker []string // the command that starts a worker
	Actor  []string // the command that starts a disturber (Act)
	// MachineWide allows disturbances of every program on the machine.
	MachineWide bool
	// Patience limits the time for repeating a twin that the machine spoiled.
	Patience time.Duration
}

// An Outcome is one trial of a situation.
type Outcome struct {
	Checks     []record.Check `json:"checks"` // the checks that are not ok, and the record's warnings
	Valid      bool           `json:"valid"`
	Failure    string         `json:"failure,omitempty"`
	P50NS      int64          `json:"p50_ns,omitempty"`
	P99NS      int64          `json:"p99_ns,omitempty"`
	Throughput float64        `json:"throughput_per_second"`
}

// A Verdict is the result of a situation.
type Verdict struct {
	Situation
	// NotStaged says why the situation was not staged; then the fields below are unset.
	NotStaged string   `json:"not_staged,omitempty"`
	Told      *Outcome `json:"told,omitempty"`   // the trial with the lie
	Honest    *Outcome `json:"honest,omitempty"` // the trial with the twin
	Class     Class    `json:"class"`
	// By is the check that names the lie, or nil.
	By *record.Check `json:"by,omitempty"`
	// Moved holds the lie's figures over the twin's, or nil if one of them has none.
	Moved *Ratios `json:"moved,omitempty"`
	// Refused is the check that made the twin invalid, or nil.
	Refused *record.Check `json:"refused,omitempty"`
}

// A Class sums up a verdict.
type Class string

// The classes of verdicts.
const (
	NotStaged Class = "not-staged"
	Noticed   Class = "noticed"  // a check in Expect objects to the lie more than to the twin
	Unclear   Class = "unclear"  // a check in Expect objects to both: something else on the machine does the same
	Harmless  Class = "harmless" // not noticed, and the figures are close to the twin's
	Passed    Class = "passed"   // not noticed, and the figures are false
)

// Ratios holds the lie's figures over the twin's.
type Ratios struct {
	P50        float64 `json:"p50"`
	P99        float64 `json:"p99"`
	Throughput float64 `json:"throughput"`
}

// A single pair of trials differs by chance: on a shared machine the mean by 9 to 18 %
// from trial to trial, and P99 by more. A figure that moved less is called harmless.
const (
	movedCentre = 1.25
	movedTail   = 2
)

// far reports whether the figure moved by more than chance.
func (r *Ratios) far() bool {
	if r == nil {
		return true
	}
	beyond := func(ratio, limit float64) bool { return !(ratio < limit && ratio > 1/limit) }
	return beyond(r.P50, movedCentre) || beyond(r.Throughput, movedCentre) || beyond(r.P99, movedTail)
}

// Examine stages a situation and its twin. An error means that no situation can be staged:
// ctx has ended, or wirelab's own programs do not start.
func (runner *Runner) Examine(ctx context.Context, s Situation) (Verdict, error) {
	v := Verdict{Situation: s, Class: NotStaged}
	here := machine{placement: lab.New(runner.Worker).Placement, wide: runner.MachineWide}
	for _, missing := range s.needs {
		if v.NotStaged = missing(here); v.NotStaged != "" {
			return v, nil
		}
	}
	honest, err := runner.stage(ctx, s, true)
	if err == nil {
		var told *record.Record
		if told, err = runner.stage(ctx, s, false); err == nil {
			v.judge(told, honest)
		}
	}
	if ctx.Err() != nil {
		return v, context.Cause(ctx)
	}
	if errors.Is(err, errNoStage) {
		return v, err
	}
	if err != nil {
		v.NotStaged = err.Error()
	}
	return v, nil
}

// judge derives the verdict from both records.
func (v *Verdict) judge(told, honest *record.Record) {
	v.Told, v.Honest = outcomeOf(told), outcomeOf(honest)
	v.Refused = honest.FirstInvalid()
	if a, b := v.Told, v.Honest; a.P50NS > 0 && b.P50NS > 0 && b.Throughput > 0 {
		v.Moved = &Ratios{
			P50: float64(a.P50NS) / float64(b.P50NS), P99: float64(a.P99NS) / float64(b.P99NS),
			Throughput: a.Throughput / b.Throughput,
		}
	}
	var own bool
	v.By, own = v.named()
	switch {
	case own:
		v.Class = Noticed
	case v.By != nil:
		v.Class = Unclear
	case v.Moved.far():
		v.Class = Passed
	default:
		v.Class = Harmless
	}
}

// named returns the check that names the lie. own reports whether it objects less to the twin:
// such checks come first, and among them those that refuse the trial.
func (v *Verdict) named() (by *record.Check, own bool) {
	for _, c := range v.Told.Checks {
		if c.Level == record.Unknown || !slices.Contains(v.Expect, c.Name) {
			continue
		}
		alone := c.Level.Gravity() > v.Honest.level(c.Name).Gravity()
		if by == nil || alone && (!own || c.Level == record.Invalid) {
			by, own = &c, alone
		}
	}
	return by, own
}

// level returns the level that a check gave the trial.
func (o *Outcome) level(check string) record.Level {
	i := slices.IndexFunc(o.Checks, func(c record.Check) bool { return c.Name == check })
	if i < 0 {
		return record.OK
	}
	return o.Checks[i].Level
}

func outcomeOf(r *record.Record) *Outcome {
	o := &Outcome{Valid: r.Valid(), Failure: r.Failure, Throughput: r.ThroughputPerSecond()}
	for _, c := range r.Checks {
		if c.Level != record.OK {
			o.Checks = append(o.Checks, c)
		}
	}
	for _, warning := range r.Warnings { // a warning's name is its text up to the first colon
		name, _, _ := strings.Cut(warning, ": ")
		o.Checks = append(o.Checks, record.Check{Name: name, Level: record.Warning, Detail: warning})
	}
	times := r.Service
	if r.Response != nil {
		times = *r.Response
	}
	if h, err := times.Decode(); err == nil && times.Count > 0 {
		o.P50NS, o.P99NS = int64(h.Quantile(0.5)), int64(h.Quantile(0.99))
	}
	return o
}

// trialPatience limits the time of a trial with its disturbance.
const trialPatience = 20 * time.Second

// stage runs one trial while the lie, or the twin, is staged.
func (runner *Runner) stage(ctx context.Context, situation Situation, twin bool) (r *record.Record, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, trialPatience, fmt.Errorf("it did not end within %v", trialPatience))
	defer cancel()
	s := &Stage{
		ctx: ctx, lab: lab.New(runner.Worker), program: runner.Actor,
		cell: situation.cell.withDefaults(), pids: map[worker.Role]int{},
	}
	defer func() { // also after a panic
		cancel()
		err = errors.Join(err, s.end())
	}()
	if err := s.newFolder(); err != nil {
		return nil, err
	}
	s.lab.Observers, s.lab.Staging = []live.Observer{s.observe}, s.launch
	s.lab.Patience = lab.Patience{} // no repeats: the lie is meant to spoil its trial
	if twin {
		s.lab.Patience.Time = runner.Patience
	}
	do := situation.lie
	if twin {
		do = situation.twin
	}
	if do != nil {
		if err := do(s); err != nil {
			return nil, err
		}
	}
	return s.run()
}

// run runs the stage's trial.
func (s *Stage) run() (*record.Record, error) {
	measured, err := s.cell.scenario()
	if err != nil {
		return nil, err
	}
	run, err := createRun(filepath.Join(s.directory, "run"), measured)
	if err != nil {
		return nil, err
	}
	err = s.lab.Run(s.ctx, measured.Plan(), run)
	if err := errors.Join(s.failed, err, run.Finish(record.Done)); err != nil {
		return nil, err
	}
	for r, err := range run.Records() {
		return &r, err
	}
	return nil, errors.New("the trial left no record")
}

// ResultVersion is the version of a Result's JSON form.
const ResultVersion = 1

// A Result holds the verdicts of all situations that were staged.
type Result struct {
	Version    int            `json:"version"`
	Placement  host.Placement `json:"placement"`
	Situations []Verdict      `json:"situations"`
	Classes    map[Class]int  `json:"classes"` // the number of situations per class
	Twins      int            `json:"twins"`
	Refused    int            `json:"refused"` // twins that are invalid
}

// Add adds a verdict, and counts it.
func (r *Result) Add(v Verdict) {
	r.Situations = append(r.Situations, v)
	r.Classes[v.Class]++
	if v.Honest != nil {
		r.Twins++
	}
	if v.Refused != nil {
		r.Refused++
	}
}

// Totals says how many situations were noticed.
func (r *Result) Totals() string {
	return fmt.Sprintf("%d of %d situations were staged: %d noticed, %d harmless and not noticed, %d passed unnoticed, %d unclear; %d of %d honest twins were refused",
		len(r.Situations)-r.Classes[NotStaged], len(r.Situations), r.Classes[Noticed], r.Classes[Harmless],
		r.Classes[Passed], r.Classes[Unclear], r.Refused, r.Twins)
}

// Describe returns a situation's verdict in a few lines of text.
func (v *Verdict) Describe() string {
	var b strings.Builder
	switch v.Class {
	case NotStaged:
		return fmt.Sprintf("%-16s not staged: %s", v.Name, v.NotStaged)
	case Noticed:
		fmt.Fprintf(&b, "%-16s noticed, %s by %s", v.Name, v.By.Level, v.By.Name)
	case Unclear:
		fmt.Fprintf(&b, "%-16s unclear, %s by %s, and so was its twin", v.Name, v.By.Level, v.By.Name)
	case Harmless:
		fmt.Fprintf(&b, "%-16s not noticed, harmless", v.Name)
	default:
		fmt.Fprintf(&b, "%-16s PASSED unnoticed", v.Name)
	}
	if v.Moved != nil {
		fmt.Fprintf(&b, " (P50 ×%s, P99 ×%s, throughput ×%s)", ratio(v.Moved.P50), ratio(v.Moved.P99), ratio(v.Moved.Throughput))
	}
	fmt.Fprintf(&b, "\n      staged: %s\n", v.Lie)
	if v.By != nil {
		fmt.Fprintf(&b, "      judge:  %s\n", v.By.Detail)
	} else {
		fmt.Fprintf(&b, "      judge:  %s\n", otherChecks(v.Told))
	}
	if v.Refused != nil {
		fmt.Fprintf(&b, "      its honest twin (%s) was REFUSED: %s, %s\n", v.Twin, v.Refused.Name, v.Refused.Detail)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// otherChecks lists the checks that object and do not name the situation.
func otherChecks(o *Outcome) string {
	var said []string
	for _, c := range o.Checks {
		if c.Level != record.Unknown {
			said = append(said, fmt.Sprintf("%s by %s, which does not name it", c.Level, c.Name))
		}
	}
	if len(said) == 0 {
		return "no check objected"
	}
	return strings.Join(said, "; ")
}

func ratio(r float64) string {
	if r >= 10 {
		return fmt.Sprintf("%.0f", math.Round(r))
	}
	return fmt.Sprintf("%.2g", r)
}

// Check fails if a false figure passed unnoticed, if a verdict is unclear, or if more honest
// twins were refused than one, and than one in 30.
func (r *Result) Check() error {
	passed, unclear := r.Classes[Passed], r.Classes[Unclear]
	if passed+unclear == 0 && r.Refused <= max(1, r.Twins/30) {
		return nil
	}
	return fmt.Errorf("false figures that passed unnoticed: %d; disturbances that this machine also has without them: %d; honest twins refused: %d of %d",
		passed, unclear, r.Refused, r.Twins)
}
