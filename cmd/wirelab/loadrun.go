package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/show/view"
	"wirelab.dev/internal/wire/service"
)

// A loadRun is a load of a user's service while it runs. It can be ended early,
// and what was measured until then counts.
type loadRun struct {
	definition *service.Definition
	title      string
	// limit ends a load of a number of requests that takes longer than limit; 0: nothing ends it.
	limit   time.Duration
	metrics string // where they are served; empty: nowhere

	remote  lab.Remote
	limited atomic.Bool // it was the limit that ended it
}

// start makes the lab report live figures, and makes the end of ctx end the load politely. The
// caller must run the lab with the context that start returns.
func (l *loadRun) start(ctx context.Context, workshop *lab.Lab) (running context.Context, stop func()) {
	if l == nil {
		return ctx, func() {}
	}
	workshop.Live, workshop.Remote = true, &l.remote
	follows := context.AfterFunc(ctx, l.remote.End)
	return context.WithoutCancel(ctx), func() { follows() }
}

// interrupted reports whether somebody ended the load.
func (l *loadRun) interrupted() bool {
	return l != nil && l.remote.Ended() && !l.limited.Load()
}

// view shows how a load goes, and serves its metrics where that was asked for.
func (a *app) viewLoad(ctx context.Context, j *job, plan []scenario.Planned) (*progress, error) {
	l, load := j.load, plan[0].Cell.Load
	stdin, _ := a.stdin.(*os.File) // nil: there are no keys
	shown := &progress{}
	if l.limit > 0 {
		shown.observers = append(shown.observers, (&bounded{load: l}).observe)
	}
	if l.metrics != "" {
		metrics := &view.Metrics{Clients: plan[0].Cell.Clients, Offered: load.Rate}
		server, err := view.ServeMetrics(ctx, l.metrics, metrics)
		if err != nil {
			return nil, usage(err)
		}
		fmt.Fprintln(a.stderr, server.Says())
		shown.observers = append(shown.observers, metrics.Observe)
		shown.server = server
	}
	shown.view = view.NewLoad(a.stderr, stdin, view.Load{
		Title: l.title, Duration: time.Duration(load.Duration), Trials: len(plan), Pauser: &l.remote, Ending: ctx.Done(),
	})
	shown.observers = append(shown.observers, shown.view.Observe)
	return shown, nil
}

// bounded ends a load when its limit is over, which begins with its window.
type bounded struct {
	load  *loadRun
	begin sync.Once
	timer *time.Timer
}

// observe starts the clock when the warm-up, if there is one, has ended, and stops it when the
// trial has.
func (b *bounded) observe(e live.Event) {
	switch e := e.(type) {
	case live.Progress:
		if !e.Warming {
			b.begin.Do(b.start)
		}
	case live.Ended:
		b.begin.Do(func() {})
		if b.timer != nil {
			b.timer.Stop()
		}
	}
}

func (b *bounded) start() {
	b.timer = time.AfterFunc(b.load.limit, func() {
		b.load.limited.Store(true)
		b.load.remote.End()
	})
}

// errBothBounds refuses two bounds of several windows.
var errBothBounds = errors.New("-n and -z: with --steps or --repeat give one of the two")

// bound returns the longest time of a load of -n requests: if -z is given too, whichever comes
// first ends the load.
func (l *loading) bound() (time.Duration, error) {
	if l.requests == 0 || l.isCounted() || !l.given("duration") {
		return 0, nil
	}
	if len(l.steps) > 1 || l.repeats > 1 {
		return 0, errBothBounds
	}
	return l.duration, nil
}
