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
	"wirelab.dev/internal/judge/check"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/worker"
)

// A Runner runs the disturbed and the undisturbed trials of situations.
type Runner struct {
	Worker []string // the command that starts a worker
	Actor  []string // the command that starts a disturbing process (RunDisturber)
	// MachineWide allows disturbances that affect every program on the machine.
	MachineWide bool
}

// An Outcome holds the result of one trial.
type Outcome struct {
	Checks     []record.Check `json:"checks"` // checks that are not OK, and the record's warnings
	Valid      bool           `json:"valid"`
	Failure    string         `json:"failure,omitempty"`
	P50NS      int64          `json:"p50_ns,omitempty"`
	P99NS      int64          `json:"p99_ns,omitempty"`
	Throughput float64        `json:"throughput_per_second"`
}

// A Verdict says whether a check noticed the disturbance of a situation.
type Verdict struct {
	Situation
	// NotStaged says why no trial was run. If it is set, the fields below are not set.
	NotStaged string   `json:"not_staged,omitempty"`
	Told      *Outcome `json:"told,omitempty"`   // the disturbed trial
	Honest    *Outcome `json:"honest,omitempty"` // the trial with the harmless twin
	Class     Class    `json:"class"`
	// By is the check that noticed the disturbance. It is nil if none did.
	By *record.Check `json:"by,omitempty"`
	// Moved compares the figures of the two trials. It is nil if a figure is missing.
	Moved *Ratios `json:"moved,omitempty"`
	// Refused is the check that wrongly made the twin's trial invalid. It is nil if none did.
	Refused *record.Check `json:"refused,omitempty"`
	// Disturbed is the check that found other programs in a first trial of the twin. The trial was
	// spoiled by them alone, so that a second one replaced it. It is nil if there was no second one.
	Disturbed *record.Check `json:"disturbed,omitempty"`
}

// A Class is a short form of a verdict.
type Class string

// The classes of verdicts: how the checks named in Expect and the figures reacted.
const (
	NotStaged  Class = "not-staged"
	Noticed    Class = "noticed"  // a check objects more to the disturbed trial than to the other
	Unclear    Class = "unclear"  // a check objects equally to both trials
	Harmless   Class = "harmless" // no check objects, but the figures match the twin's figures
	Undetected Class = "passed"   // no check objects, and the figures are false
)

// Ratios holds figures of the disturbed trial divided by the same figures of the twin's trial.
type Ratios struct {
	P50        float64 `json:"p50"`
	P99        float64 `json:"p99"`
	Throughput float64 `json:"throughput"`
}

// Limits on ratios that chance explains. On a shared machine, chance changes a mean by 9 to 18 %,
// and a P99 by more. A disturbance within the limits counts as harmless.
const (
	maxChanceRatio    = 1.25
	maxChanceP99Ratio = 2
)

// exceedsChance reports whether a ratio is beyond its limit. A nil Ratios counts as beyond.
func (r *Ratios) exceedsChance() bool {
	if r == nil {
		return true
	}
	beyond := func(ratio, limit float64) bool { return !(ratio < limit && ratio > 1/limit) }
	return beyond(r.P50, maxChanceRatio) || beyond(r.Throughput, maxChanceRatio) || beyond(r.P99, maxChanceP99Ratio)
}

// Examine runs the disturbed trial and the twin's trial of a situation. It returns an error only if
// no situation can be staged: ctx has ended, or wirelab's own programs do not start.
func (runner *Runner) Examine(ctx context.Context, s Situation) (Verdict, error) {
	v := Verdict{Situation: s, Class: NotStaged}
	here := machineInfo{placement: lab.New(runner.Worker).Placement, wide: runner.MachineWide}
	for _, missing := range s.needs {
		if v.NotStaged = missing(here); v.NotStaged != "" {
			return v, nil
		}
	}
	honest, err := runner.runStagedTrial(ctx, s, true)
	if err == nil {
		if why, spoiled := check.SpoiledByMachine(honest.Checks); spoiled {
			v.Disturbed = &why
			honest, err = runner.runStagedTrial(ctx, s, true)
		}
	}
	if err == nil {
		var told *record.Record
		if told, err = runner.runStagedTrial(ctx, s, false); err == nil {
			v.classify(told, honest)
		}
	}
	if ctx.Err() != nil {
		return v, context.Cause(ctx)
	}
	if errors.Is(err, errCannotStage) {
		return v, err
	}
	if err != nil {
		v.NotStaged = err.Error()
	}
	return v, nil
}

// classify sets the verdict from the records of the disturbed trial and of the twin's trial.
func (v *Verdict) classify(told, honest *record.Record) {
	v.Told, v.Honest = outcomeOf(told), outcomeOf(honest)
	v.Refused = honest.FirstInvalid()
	if a, b := v.Told, v.Honest; a.P50NS > 0 && b.P50NS > 0 && b.Throughput > 0 {
		v.Moved = &Ratios{
			P50: float64(a.P50NS) / float64(b.P50NS), P99: float64(a.P99NS) / float64(b.P99NS),
			Throughput: a.Throughput / b.Throughput,
		}
	}
	var own bool
	v.By, own = v.namingCheck()
	switch {
	case own:
		v.Class = Noticed
	case v.By != nil:
		v.Class = Unclear
	case v.Moved.exceedsChance():
		v.Class = Undetected
	default:
		v.Class = Harmless
	}
}

// namingCheck returns a check in Expect that objects to the disturbed trial, or nil. own reports
// whether the check objects less to the twin's trial. It prefers such checks, and then those that
// make the trial invalid.
func (v *Verdict) namingCheck() (by *record.Check, own bool) {
	for _, c := range v.Told.Checks {
		if c.Level == record.Unknown || !slices.Contains(v.Expect, c.Name) {
			continue
		}
		alone := c.Level.Severity() > v.Honest.levelOf(c.Name).Severity()
		if by == nil || alone && (!own || c.Level == record.Invalid) {
			by, own = &c, alone
		}
	}
	return by, own
}

// levelOf returns a check's level in the trial. A check without an objection has the level OK.
func (o *Outcome) levelOf(check string) record.Level {
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
	// The warning's text before its first colon counts as the name of a check.
	for _, warning := range r.Warnings {
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

// trialTimeout limits the time of one trial, including its disturbance.
const trialTimeout = 20 * time.Second

// runStagedTrial runs one trial of a situation. If twin is true, it stages the harmless twin.
func (runner *Runner) runStagedTrial(ctx context.Context, situation Situation, twin bool) (r *record.Record, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, trialTimeout, fmt.Errorf("the trial did not end within %v", trialTimeout))
	defer cancel()
	s := &Stage{
		ctx: ctx, lab: lab.New(runner.Worker), program: runner.Actor,
		cell: situation.cell.withDefaults(), pids: map[worker.Role]int{},
	}
	defer func() { // runs after a panic, too
		cancel()
		err = errors.Join(err, s.undoAll())
	}()
	if err := s.newFolder(); err != nil {
		return nil, err
	}
	s.lab.Observers, s.lab.Staging = []live.Observer{s.observe}, s.launch
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

// run measures the trial of the stage and returns its record.
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
	return nil, errors.New("the trial ended without a record")
}

// ResultVersion is the version of Result's JSON form.
const ResultVersion = 1

// A Listing holds situations that were not staged.
type Listing struct {
	Version    int         `json:"version"`
	Situations []Situation `json:"situations"`
}

// A Result holds the verdicts on all situations.
type Result struct {
	Version    int            `json:"version"`
	Placement  host.Placement `json:"placement"`
	Situations []Verdict      `json:"situations"`
	Classes    map[Class]int  `json:"classes"` // number of verdicts in each class
	Twins      int            `json:"twins"`
	Refused    int            `json:"refused"` // number of twins whose trial was judged invalid
}

// Add appends a verdict and updates the counts.
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

// Totals returns a sentence with the number of situations in each class.
func (r *Result) Totals() string {
	return fmt.Sprintf("%d of %d situations were staged: %d were noticed, %d were not noticed but were harmless, %d were not noticed and made the figures FALSE, %d were unclear; %d of %d honest twins were refused",
		len(r.Situations)-r.Classes[NotStaged], len(r.Situations), r.Classes[Noticed], r.Classes[Harmless],
		r.Classes[Undetected], r.Classes[Unclear], r.Refused, r.Twins)
}

// Describe describes a verdict in a few lines of text.
func (v *Verdict) Describe() string {
	var b strings.Builder
	switch v.Class {
	case NotStaged:
		return fmt.Sprintf("%-16s not staged: %s", v.Name, v.NotStaged)
	case Noticed:
		fmt.Fprintf(&b, "%-16s noticed, %s by %s", v.Name, v.By.Level, v.By.Name)
	case Unclear:
		fmt.Fprintf(&b, "%-16s unclear: the check %[3]s says %[2]s, but says the same about the honest twin", v.Name, v.By.Level, v.By.Name)
	case Harmless:
		fmt.Fprintf(&b, "%-16s not noticed, but harmless", v.Name)
	default:
		fmt.Fprintf(&b, "%-16s NOT NOTICED, and the figures are false", v.Name)
	}
	if v.Moved != nil {
		fmt.Fprintf(&b, " (P50 ×%s, P99 ×%s, throughput ×%s)", formatRatio(v.Moved.P50), formatRatio(v.Moved.P99), formatRatio(v.Moved.Throughput))
	}
	fmt.Fprintf(&b, "\n      staged: %s\n", v.Lie)
	if v.By != nil {
		fmt.Fprintf(&b, "      judge:  %s\n", v.By.Detail)
	} else {
		fmt.Fprintf(&b, "      judge:  %s\n", otherChecks(v.Told))
	}
	if v.Disturbed != nil {
		fmt.Fprintf(&b, "      other programs disturbed the honest twin, so it was run a second time: %s, %s\n", v.Disturbed.Name, v.Disturbed.Detail)
	}
	if v.Refused != nil {
		fmt.Fprintf(&b, "      the honest twin (%s) was REFUSED: %s, %s\n", v.Twin, v.Refused.Name, v.Refused.Detail)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// otherChecks lists the checks that object for a reason other than the disturbance.
func otherChecks(o *Outcome) string {
	var said []string
	for _, c := range o.Checks {
		if c.Level != record.Unknown {
			said = append(said, fmt.Sprintf("the check %[2]s says %[1]s, but for another reason than the disturbance", c.Level, c.Name))
		}
	}
	if len(said) == 0 {
		return "no check objected"
	}
	return strings.Join(said, "; ")
}

func formatRatio(r float64) string {
	if r >= 10 {
		return fmt.Sprintf("%.0f", math.Round(r))
	}
	return fmt.Sprintf("%.2g", r)
}

// Check returns an error if a disturbance with false figures was not noticed, a verdict is unclear,
// or too many twins were refused. Up to one in 30 twins may be refused, but at least one.
func (r *Result) Check() error {
	passed, unclear := r.Classes[Undetected], r.Classes[Unclear]
	if passed+unclear == 0 && r.Refused <= max(1, r.Twins/30) {
		return nil
	}
	return fmt.Errorf("%d situations made the figures false and were not noticed; %d situations are unclear, because the check also objected to the honest twin; %d of %d honest twins were refused",
		passed, unclear, r.Refused, r.Twins)
}
