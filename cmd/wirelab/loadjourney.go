package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"wirelab.dev/internal/base/expect"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/journey"
	"wirelab.dev/internal/wire/service/library"
)

// journeyFlags are about a target that is a file of what users do.
type journeyFlags struct {
	target string // in place of the file's

	name   string
	file   []byte
	script *journey.Script // nil: the target is no such file
	drawn  bool
}

func (j *journeyFlags) register(f *pflag.FlagSet) {
	f.StringVar(&j.target, "target", "", "`URL` of the service, in place of the one in a .yaml file")
}

// mostJourney bounds a file.
const mostJourney = 64 << 10

// read reads the file, if the target is one, and returns the target in it.
func (j *journeyFlags) read(text string) (string, error) {
	if extension := filepath.Ext(text); extension != ".yaml" && extension != ".yml" || strings.Contains(text, "://") {
		if j.target != "" {
			return "", errors.New("--target is for a .yaml file: name the URL itself")
		}
		return text, nil
	}
	var err error
	if j.file, err = plan.ReadFile(text, mostJourney); err != nil {
		return "", err
	}
	j.name = filepath.Base(text)
	if j.script, err = journey.Parse(text, j.file); err != nil {
		return "", err
	}
	target := j.script.Target
	if j.target != "" {
		target = j.target
	}
	if target == "" {
		return "", fmt.Errorf("%s names no target: write `target: http://…`, or give --target URL", text)
	}
	where, err := url.Parse(target)
	if err != nil || where.Path != "" && where.Path != "/" || where.RawQuery != "" || where.Scheme != "http" && where.Scheme != "https" {
		return "", fmt.Errorf("%s: found the target %q: want http:// or https:// with a host and no path: steps have the paths", text, target)
	}
	return target, nil
}

// check holds the load against the file.
func (j *journeyFlags) check(s *scenario.Scenario, l *loading) error {
	if j.script == nil {
		return nil
	}
	for _, flag := range []string{"method", "data", "data-file", "content-type", "rows", "random", "call", "proto", "protoset"} {
		if l.given(flag) {
			return fmt.Errorf("--%s: the steps in %s say that", flag, j.name)
		}
	}
	if l.given("traceparent") {
		return fmt.Errorf("--traceparent: not with steps: write the header into %s", j.name)
	}
	j.drawn = s.Parts[0].Load.Model != scenario.Closed
	least := slices.Min(s.Parts[0].Clients)
	if name, from := j.script.Missing(least); name != "" && !j.drawn {
		return fmt.Errorf("-c %d: by their weights none of so many users is a %s: want %d or more, or other weights in %s", least, name, from, j.name)
	}
	return nil
}

// apply puts the file into the definition.
func (j *journeyFlags) apply(d *service.Definition) {
	if j.script != nil {
		d.Journey = &service.Journey{Name: j.name, File: j.file, Drawn: j.drawn}
	}
}

// tryJourney goes one round of each kind of users, and says what came back. What fails is not
// loaded.
func (a *app) tryJourney(ctx context.Context, l *loading, d *service.Definition, _ *service.Request) error {
	limit := firstAtMost
	if l.given("timeout") {
		limit = l.timeout
	}
	expected, err := d.Expectations()
	if err != nil {
		return err
	}
	opening, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	client, err := library.Open(opening, service.Plan{Definition: d, Connections: 1, Callers: 1, Keep: true, Varied: true, Dialer: &conn.Dialer{}})
	if err != nil {
		return fmt.Errorf("%s: %s", sayService(d), sayServiceFault(d, err, lab.LookAt(ctx, d.Address), limit))
	}
	defer client.Close()
	for i, kind := range l.journey.script.Kinds() {
		source := l.journey.script.Source(journey.User{Client: i, Clients: 1, Kind: i, Seed: l.seed, Header: d.Requests[0].Header})
		round := firstRound{kind: kind, limit: limit, source: source, caller: d.NewCaller(client, source)}
		round.caller.Expect(expected, l.seed)
		if err := round.walk(ctx, a, client); err != nil {
			return fmt.Errorf("%s: %w: nothing was loaded", sayService(d), err)
		}
	}
	return nil
}

// firstRound is one of a kind of users.
type firstRound struct {
	kind   string
	limit  time.Duration // of a call
	source *journey.Source
	caller *service.Caller
}

func (r *firstRound) walk(ctx context.Context, a *app, client service.Client) error {
	first, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	if err := r.source.Begin(first, client); err != nil {
		return fmt.Errorf("the first %s: %w", r.kind, sayUnmet(err))
	}
	for !r.source.RoundEnded() {
		err := r.call(ctx, a)
		if unmet, is := errors.AsType[*expect.Unmet](err); is && isAboutLatency(unmet) {
			fmt.Fprintf(a.stderr, "note: the first round: %s does not meet %s: %v\n", r.caller.Name(), unmet.Condition, unmet)
			return nil // the next may be sooner
		}
		if err != nil {
			return fmt.Errorf("the first round: %s: %w", r.caller.Name(), sayUnmet(err))
		}
	}
	return nil
}

func (r *firstRound) call(ctx context.Context, a *app) error {
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	sent := time.Now()
	err := r.caller.Call(ctx)
	took := time.Since(sent)
	if status, answered := r.caller.Status(); answered {
		fmt.Fprintf(a.stderr, "first round: %s: %s, %v\n", r.caller.Name(), (&service.StatusError{Status: status}).Said(), took.Round(10*time.Microsecond))
	}
	if err != nil {
		return err
	}
	return r.caller.Check()
}

func isAboutLatency(unmet *expect.Unmet) bool {
	condition, err := expect.Parse(unmet.Condition, expect.HTTP)
	return err == nil && condition.Uses().Latency
}

// sayUnmet says which condition an answer does not meet.
func sayUnmet(err error) error {
	if unmet, is := errors.AsType[*expect.Unmet](err); is {
		return fmt.Errorf("%s: %w", unmet.Condition, err)
	}
	return err
}
