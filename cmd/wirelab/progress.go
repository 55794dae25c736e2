package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/show/publish"
	"wirelab.dev/internal/show/push"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/show/report/export"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/view"
)

// A loadRun is a load in progress. A load that ends early still reports its figures.
type loadRun struct {
	title string
	// limit is the longest time of a load with -n requests. 0 means that there is no limit.
	limit   time.Duration
	metrics string       // address that serves the metrics; empty means that none are served
	pusher  *push.Pusher // nil means that no metrics are pushed

	measured view.Metrics // empty unless the metrics are served or pushed
	series   string       // file for one row per second; empty means none

	remote  lab.RunControls
	limited atomic.Bool // true if the time limit ended the load
}

// start makes the load end gently when ctx ends. The caller passes the returned context to the lab.
func (l *loadRun) start(ctx context.Context, workshop *lab.Lab) (running context.Context, stop func()) {
	if l == nil {
		return ctx, func() {}
	}
	workshop.Live, workshop.Remote, workshop.Series = true, &l.remote, l.series != ""
	follows := context.AfterFunc(ctx, l.remote.End)
	return context.WithoutCancel(ctx), func() { follows() }
}

// writeSeries writes the file with one row per second, if the user asked for it.
func (l *loadRun) writeSeries(seen *report.Run) error {
	if l == nil || l.series == "" {
		return nil
	}
	err := publish.WriteFile(l.series, func(w io.Writer) error { return export.WriteSeries(w, seen.Records) })
	if err != nil {
		return fmt.Errorf("--series: %w", err)
	}
	return nil
}

// interrupted reports whether the user ended the load early.
func (l *loadRun) interrupted() bool {
	return l != nil && l.remote.Ended() && !l.limited.Load()
}

// showLoad shows a load's progress, and serves and pushes its metrics if requested.
func (a *app) showLoad(ctx context.Context, j *job, plan []scenario.PlannedCell) (observers []live.Observer, stop func(), _ error) {
	l, load := j.load, plan[0].Cell.Load
	stdin, _ := a.stdin.(*os.File) // nil if the user cannot press keys
	if l.limit > 0 {
		observers = append(observers, l.limitObserver())
	}
	stopMetrics := func() {}
	if l.metrics != "" || l.pusher != nil {
		l.measured.Clients, l.measured.Offered = plan[0].Cell.Clients, load.Rate
		observers = append(observers, l.measured.Observe)
	}
	if l.metrics != "" {
		server, err := view.ServeMetrics(ctx, l.metrics, &l.measured)
		if err != nil {
			return nil, nil, usageError(err)
		}
		fmt.Fprintln(a.stderr, server.Describe())
		stopMetrics = func() { _ = server.Close() }
	}
	shown := view.NewLoad(a.stderr, stdin, view.Load{
		Title: l.title, Duration: time.Duration(load.Duration), Trials: len(plan), Pauser: &l.remote, Ending: ctx.Done(),
	})
	return append(observers, shown.Observe), func() { shown.Close(); stopMetrics() }, nil
}

// endPush pushes the metrics a last time, with the outcomes of gates. A push that failed is a warning:
// the figures of the load are not worse for it.
func (a *app) endPush(ctx context.Context, l *loadRun, judged []analysis.GateFinding) {
	if l == nil || l.pusher == nil {
		return
	}
	l.measured.SetGates(judged)
	if err := l.pusher.Close(ctx); err != nil {
		a.sayf("warning: %v", err)
	}
}

// pushFlags says where the metrics of a load are pushed to.
type pushFlags struct{ targets, header []string }

func (p *pushFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&p.targets, "push", nil, "push the load's metrics and gates every 2 s to this `receiver`: otlp, otlp=http://HOST:4318, or prometheus=http://HOST:9090/api/v1/write; repeatable")
	f.StringArrayVar(&p.header, "push-header", nil, "header `field` of --push, as in 'Authorization: Bearer TOKEN'")
	setCompletions(cmd, "push", []string{"otlp", "otlp=http://127.0.0.1:4318", "prometheus=http://127.0.0.1:9090/api/v1/write"})
}

// start begins to push the metrics. It returns nil without a target.
func (p *pushFlags) start(ctx context.Context, metrics *view.Metrics) (*push.Pusher, error) {
	var targets []push.Target
	for _, text := range p.targets {
		t, err := push.ParseTarget(text)
		if err != nil {
			return nil, usageError(fmt.Errorf("--push: %w", err))
		}
		targets = append(targets, t)
	}
	var header []push.Header
	for _, text := range p.header {
		name, value, found := strings.Cut(text, ":")
		if !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, usageError(fmt.Errorf("--push-header: found %q: want a name, a colon and a value, as in 'Authorization: Bearer TOKEN'", text))
		}
		header = append(header, push.Header{Name: name, Value: strings.TrimSpace(value)})
	}
	switch {
	case len(targets) > 0:
		return push.Start(ctx, metrics, time.Now().Format("20060102-150405"), targets, header)
	case len(header) > 0:
		return nil, usageError(errors.New("--push-header: there is no --push: name a receiver, as in --push otlp"))
	}
	return nil, nil
}

// limitObserver returns an observer that ends the load after the time limit.
func (l *loadRun) limitObserver() live.Observer {
	var begin sync.Once
	var timer *time.Timer
	start := func() {
		timer = time.AfterFunc(l.limit, func() {
			l.limited.Store(true)
			l.remote.End()
		})
	}
	return func(e live.Event) {
		switch e := e.(type) {
		case live.Progress:
			if !e.Warming {
				begin.Do(start)
			}
		case live.Ended:
			begin.Do(func() {})
			if timer != nil {
				timer.Stop()
			}
		}
	}
}

func (a *app) announce(workshop *lab.Lab, j job, run *record.Run) {
	u := run.Manifest.Until
	if j.load == nil { // the figures of a load name its target and its directory
		a.sayf("%s: %s into %s", cmp.Or(j.scenario.Title, j.scenario.Name), words.Count(run.Manifest.Trials, "trial"), run.Dir)
	}
	for _, warning := range j.warnings {
		a.sayf("warning: %s", warning)
	}
	if u != nil && u.Claims { // the results of each look decide which cells are repeated
		return
	}
	if u != nil {
		a.sayf("repeats until %s", plan.DescribeEnd(u))
	}
	trials := plan.Trials(j.scenario, u)
	if took := plan.NewEstimate(trials, run).Remaining(); took > time.Minute {
		a.sayf("the run takes about %v on a quiet machine", took.Round(10*time.Second))
	}
	folders := slices.Compact([]string{filepath.Dir(run.Dir), record.RunsFolder})
	if u != nil && u.TimeNS == 0 { // otherwise only the first look is sure to come
		trials = plan.TrialsOfAllLooks(j.scenario, u)
	}
	planned := compare.Planned{Cells: workshop.Cells(trials), InBlocks: slices.ContainsFunc(trials, func(t scenario.PlannedCell) bool { return t.Block != 0 }), Until: u}
	if run.Manifest.Forecast = plan.DescribeOutlook(planned, folders); run.Manifest.Forecast != "" {
		a.sayf("%s", run.Manifest.Forecast)
	}
}

// sayf prints a message on standard error, broken between words on a terminal. A message of several
// lines keeps its lines.
func (a *app) sayf(message string, args ...any) {
	text := fmt.Sprintf(message, args...)
	terminal := format.TerminalOf(a.stderr)
	text = terminal.Encode(text)
	if strings.Contains(text, "\n") || terminal.Width == 0 {
		fmt.Fprintln(a.stderr, text)
		return
	}
	var out strings.Builder
	format.Wrap(&out, text, format.Layout{Width: terminal.Width, Hang: 2})
	fmt.Fprint(a.stderr, out.String())
}

// showProgress shows a job's progress until stop is called.
func (a *app) showProgress(ctx context.Context, j *job, trials []scenario.PlannedCell, run *record.Run) (observers []live.Observer, stop func(), _ error) {
	if j.load != nil {
		return a.showLoad(ctx, j, trials)
	}
	look := ""
	if u := run.Manifest.Until; u != nil {
		look = plan.NameLook(u)
	}
	left := plan.NewEstimate(trials, run)
	standing := func() view.RunProgress {
		return view.RunProgress{Done: left.DoneCount(), Trials: left.TrialCount(), Left: left.Remaining(), Took: left.Elapsed()}
	}
	shown := view.NewRun(a.stderr, view.Run{Title: look, Plan: trials, Order: lab.ManifestOrder(trials), Progress: standing})
	return []live.Observer{left.Observe, shown.Observe}, shown.Close, nil
}

func (a *app) measure(ctx context.Context, workshop *lab.Lab, j job, run *record.Run, pageAt net.Listener) (err error) {
	var page *view.Page
	if pageAt != nil {
		page = view.ServePage(pageAt, func() (*report.Run, error) { return a.readRun(run.Dir) }, a.stderr)
		defer func() { err = errors.Join(err, page.Close()) }()
	}
	running, stop := j.load.start(ctx, workshop)
	defer stop()
	course := plan.LookSeries{
		Run: run, Scenario: j.scenario, Limits: a.limits,
		Undecided: analysis.UndecidedChanges(j.gates.conditions, &run.Manifest),
		Say:       func(line string) { a.sayf("%s", line) },
		MeasureTrials: func(trials []scenario.PlannedCell) error {
			observers, stop, err := a.showProgress(ctx, &j, trials, run)
			if err != nil {
				return err
			}
			defer stop()
			workshop.Observers = observers
			if page != nil {
				workshop.Observers = append(workshop.Observers, page.Observe)
			}
			return workshop.Run(running, trials, run)
		},
	}
	if err := course.Measure(); err != nil {
		return err
	}
	workshop.ReadAnchor(running, run, 1)
	return nil
}
