package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/secret"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/view"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/reach"
)

// loadFlags holds the flags of load.
type loadFlags struct {
	measureFlags
	trialFlags
	clients    int
	steps      []int
	requests   int
	shape      shapeFlags
	connection string
	inFlight   int
	timeout    time.Duration
	retry      int
	wait       time.Duration // for a service that is still starting
	waiting    reach.Waiting
	request    requestFlags
	grpc       methodFlags
	identity   tlsFlags
	expect     expectFlags
	metrics    string
	push       pushFlags
	series     string // file for one row per second
	samples    bool   // save every request
	journey    journeyFlags
	streams    streamFlags
	mayLoad    bool     // the user allows a target outside this machine and private networks
	also       []string // processes that belong to the service, by PID or port
	against    string   // the target of the other version; empty if there is one version
	traced     float64  // share of the requests that carry a traceparent header

	notes []string // choices for the request that the user did not make, as lines

	given  func(flag string) bool
	finish func(directory string) error // adds files to the run's directory; may be nil
}

const (
	loadName      = "load"
	versionWindow = time.Second // default length of a window of two versions
)

func (a *app) loadCommand() *cobra.Command {
	var l loadFlags
	cmd := &cobra.Command{
		Use:   "load TARGET",
		Short: "Load a service of your own, and show how fast it answers",
		Long: `Load calls a service that runs already, over HTTP/1.1, 2 or 3, or gRPC, and
prints how fast it answered, with checks of whether the figures can be
believed. It first makes one call, to check that the target answers.

TARGET is a URL: http://, https://, grpc://HOST:PORT/pkg.Service/Method, grpcs://,
connect:// and connects:// (unary calls of the Connect protocol, in JSON),
ws:// and wss:// (WebSockets, which clients hold open: docs/load-streams.md), or unix:/path/of/a/socket; or a .yaml file that says what users do there, step by
step (docs/load-scenarios.md). If the target is neither on this machine nor on a
private network, it asks first whether you may load it. If the target's first
answer redirects within the same server, the new path is loaded and printed.

--fail-if sets a gate. Its condition limits a figure (mean, p50 to p99.99, max, rps,
errors, ok, client, server, ...) or, with --baseline RUN and a percentage with its sign,
a change. A cell is compared with the earlier cell that has the same requests and load,
at any address. A gate is kept, breached (exit code 3), or cannot tell (exit code 4,
or 0 with --undecided pass): then the figure is unknown, or its interval contains the
limit. docs/load.md lists all forms of conditions.

--against loads another version of the service in the same run, in turns of tens of
milliseconds. It says how much faster or slower that version is than TARGET, or within
how many percent both are equal. A change in --fail-if is then judged between the two.`,
		Example: `  wirelab load http://127.0.0.1:8080/
  wirelab load -c 50 -z 10s http://127.0.0.1:8080/items?limit=10
  wirelab load -n 1000 -m POST -H 'Content-Type: application/json' -d '{"name":"x"}' http://127.0.0.1:8080/items
  wirelab load --rps 2000 -z 30s --http 2 https://127.0.0.1:8443/ -k
  wirelab load grpc://127.0.0.1:50051/helloworld.Greeter/SayHello -d '{"name":"x"}'
  wirelab load -c 100 --message-rate 5 -d '{"text":"hi"}' ws://127.0.0.1:8080/chat   # 100 held streams, 5 messages per second on each
  wirelab load --connect-to shop.test:443:127.0.0.1:8443 https://shop.test/   # an address, with the names of the URL
  wirelab load --addresses all --lookup-every 5s grpc://shop.test:50051/shop.v1.Shop/Get -d '{"id":"7"}'   # requests in turn to all addresses of the name, which may change
  wirelab load --goal 'p99<10ms' http://127.0.0.1:8080/     # the highest rate that keeps the goal
  wirelab load --also :5432 http://127.0.0.1:8080/          # the database on port 5432 is part of the service
  wirelab load --probe syscalls,cpu,counters -o run http://127.0.0.1:8080/   # more trials, which count and sample; then: wirelab explain run
  wirelab load --traceparent 0.01 http://127.0.0.1:8080/    # trace 1 % of the requests, and print the slowest
  wirelab load --series seconds.csv --samples http://127.0.0.1:8080/   # one row per second, and one per request
  wirelab load --stages 30s:100,2m:500,30s:0 http://127.0.0.1:8080/   # the rate rises to 100/s, then to 500/s, and falls to 0
  wirelab load --targets urls.txt --rps 50                  # a list of URLs, or of vegeta's targets, sent in turn
  wirelab load --no-save -n 100 http://127.0.0.1:8080/      # print the figures, and keep nothing on disk
  wirelab load --fail-if 'p99>20ms' --fail-if 'errors>0.1%' --junit load.xml http://127.0.0.1:8080/   # exit code 3 if one is true
  wirelab load http://127.0.0.1:8080/ --against http://127.0.0.1:8081/ --fail-if 'p99>+10%'           # two versions, by turns
  wirelab load --repeat 3 --baseline results-before --fail-if 'p99>+10%' http://127.0.0.1:8080/       # exit code 3 if it became slower`,
		Args: func(cmd *cobra.Command, args []string) error {
			if l.request.list != "" && len(args) == 0 {
				return nil
			}
			return argumentCount(1, 1, "one target, as in wirelab load http://127.0.0.1:8080/")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.load(cmd, &l, strings.Join(args, ""))
		},
	}
	l.register(cmd)
	return cmd
}

// register adds the flags. The defaults are small, because a large default could harm a service.
func (l *loadFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	l.given = f.Changed
	f.IntVarP(&l.clients, "concurrency", "c", 10, "`clients` at once, each with one request in flight")
	f.IntSliceVar(&l.steps, "steps", nil, "numbers of `clients`, measured one after the other, as in 1,10,100 (instead of -c)")
	f.IntVarP(&l.requests, "requests", "n", 0, "total number of `requests` of all clients (instead of -z); there is no warm-up; with --rps, they are sent at equal intervals")
	l.shape.register(cmd)
	f.StringVar(&l.connection, "conn", "", "connection `mode`: shared, per-worker, pool:N, new, or resumed (new, and resumes a TLS session) (default: shared with gRPC, per-worker with HTTP)")
	f.IntVar(&l.inFlight, "inflight", 0, "most `requests` in flight at once, of all clients together; the wait for a free place is measured")
	f.IntVar(&l.retry, "retry", 0, "how `often` a request is sent again if its connection ended without an answer, or the server refused it; also requests that change something")
	f.DurationVar(&l.timeout, "timeout", 20*time.Second, "longest `time` that a request may take")
	f.DurationVar(&l.wait, "wait", 0, "longest `time` to wait for a service that is still starting, as in 30s")
	f.String("from", "", "`TOOL COMMAND`: a command or a file of another tool, in place of TARGET, as in --from curl 'curl http://127.0.0.1:8080/'") // read by translateLoadArguments
	f.StringVar(&l.metrics, "metrics", "", "during the load, serve its figures to Prometheus at this `address`, as in :9090")
	l.push.register(cmd)
	f.BoolVar(&l.mayLoad, "yes-i-may", false, "load a target that is neither on this machine nor on a private network")
	l.request.register(cmd)
	l.grpc.register(cmd)
	l.identity.register(f)
	l.expect.register(f)
	l.journey.register(f)
	l.streams.register(cmd)
	l.trialFlags.register(cmd, 5*time.Second, 1)
	l.output.register(cmd)
	f.StringVar(&l.series, "series", "", "write one row per second into this CSV `file`: requests, failures, mean, P50, P90, P99 and maximum")
	f.BoolVar(&l.samples, "samples", false, "save one row per request in Parquet files, in the run's directory (docs/records.md)")
	f.BoolVar(&l.output.unsaved, "no-save", false, "keep nothing on disk: no records, no report; print the figures only")
	l.probes.register(cmd, plan.ServiceProbes())
	l.gates.register(cmd)
	l.gates.registerFiles(cmd)
	l.fleet.register(cmd)
	f.StringVar(&l.against, "against", "", "another version of the service: a `TARGET` that is loaded by turns with the first one, and compared with it")
	l.until.registerBudget(cmd)
	f.Float64Var(&l.traced, "traceparent", 0, "`share` of the requests that carry a traceparent header for your tracing system, as in 0.01; the slowest of these are printed")
	setCompletions(cmd, "traceparent", []string{"0.001", "0.01", "0.1", "1"})
	f.StringSliceVar(&l.also, "also", nil, "count another process and its children as the service: `PID|port|cgroup`, as in 4711, :5432 or cgroup:/PATH; repeatable")
	f.Lookup("link").Usage = "refused, because the service already runs; the error says how to emulate this `link`"
	setCompletions(cmd, "conn", []string{"shared", "per-worker", "pool:4", "new", "resumed"})
}

func (a *app) load(cmd *cobra.Command, l *loadFlags, text string) error {
	versions, err := l.versions(text)
	if err != nil {
		return usageError(err)
	}
	s, err := l.scenario(versions)
	if err != nil {
		return usageError(err)
	}
	s, warnings, err := l.probes.apply(s, l.fleet, anyNameVocabulary)
	if err != nil {
		return usageError(err)
	}
	err = plan.RefuseLink(l.link.links)
	for i := range versions {
		err = cmp.Or(err, versions[i].journey.check(s, &versions[i].loadFlags))
	}
	if err := errors.Join(err, l.output.checkUnsaved(), l.checkRows(), l.checkProbes()); err != nil {
		return usageError(err)
	}
	j, err := l.baseJob(a, s, true)
	if err != nil {
		return usageError(err)
	}
	j.warnings = warnings
	if j.fleet == nil {
		if err := lab.CheckFiles(s.Parts[0]); err != nil {
			return usageError(fmt.Errorf("-c: %w", err))
		}
	}
	if j.until, err = l.until.read(cmd, s); err != nil {
		return usageError(err)
	}
	j.targets, j.services = map[string]string{}, map[string]string{}
	var labels []string
	for i := range versions {
		v := &versions[i]
		v.variant = s.Parts[0].Stacks[i].String()
		if err := a.prepareVersion(cmd.Context(), v, &j); err != nil {
			return err
		}
		j.versions = append(j.versions, v)
		if err := j.define(v); err != nil {
			return err
		}
		labels = lists.AppendNew(labels, v.first.Definition.Label())
	}
	s.Parts[0].Workload = strings.Join(labels, " | ")
	if l.against != "" {
		j.finish = l.finish
		return a.execute(cmd.Context(), j)
	}
	j.load = &loadRun{title: s.Title, metrics: l.metrics, series: l.series}
	if j.load.limit, err = l.timeLimit(); err != nil {
		return usageError(err)
	}
	if !l.output.dryRun {
		if j.load.pusher, err = l.push.start(cmd.Context(), &j.load.measured); err != nil {
			return err
		}
	}
	return a.execute(cmd.Context(), j)
}

// A calledVersion is a target, with the flags that describe its requests.
type calledVersion struct {
	loadFlags
	target  service.Target
	variant string
	first   reach.FirstCall
}

// versions returns the target, and the one of --against.
func (l *loadFlags) versions(text string) ([]calledVersion, error) {
	target, err := l.readTarget(text)
	if err != nil || l.against == "" {
		return []calledVersion{{loadFlags: *l, target: target}}, err
	}
	if l.gates.baseline != "" {
		return nil, errors.New("--against and --baseline: both name a version to compare with: leave out one of them")
	}
	if l.metrics != "" || l.series != "" || len(l.push.targets) > 0 {
		return nil, errors.New("--against and --metrics, --push or --series: the figures of two versions cannot be served as one: leave out one of them")
	}
	head := calledVersion{loadFlags: *l}
	head.journey.target = ""
	headText := l.against
	if l.journey.script != nil && !isJourney(headText) { // the same file, with another target
		head.journey.target, headText = headText, text
	}
	if head.target, err = head.readTarget(headText); err != nil {
		return nil, fmt.Errorf("--against: %w", err)
	}
	return []calledVersion{{loadFlags: *l, target: target}, head}, nil
}

// readTarget reads the target, and its file if it is a file of user steps.
func (l *loadFlags) readTarget(text string) (target service.Target, err error) {
	if text, err = l.request.readList(text, os.Stdin); err == nil {
		text, err = l.journey.read(text)
	}
	if err == nil {
		target, err = l.request.target(text, l.grpc.defaultScheme())
	}
	if err != nil {
		return target, err
	}
	return target, errors.Join(l.grpc.apply(&target), l.request.rules.Apply(&target, &l.journey.grpc))
}

// prepareVersion asks for permission, finds the processes of --also for the job, and makes the first
// call, unless an agent of a fleet will make it.
func (a *app) prepareVersion(ctx context.Context, v *calledVersion, j *job) error {
	for _, t := range []service.Target{v.target, v.journey.grpc} {
		if err := a.askPermission(ctx, &v.loadFlags, t); err != nil {
			return err
		}
	}
	v.waiting = reach.Waiting{Until: time.Now().Add(v.wait), Notes: a.stderr}
	definition, first, err := v.define(ctx, v.target)
	if err != nil {
		return err
	}
	a.printLines(v.notes)
	if j.also, err = v.findAlso(definition); err != nil {
		return usageError(err)
	}
	if err := v.addJourney(ctx, definition); err != nil {
		return err
	}
	v.first = reach.FirstCall{Definition: definition, Request: first, Script: v.journey.script, Seed: v.seed, Notes: format.Writer(a.stderr), Whole: v.given("sse") || v.request.list != ""}
	if v.given("timeout") {
		v.first.Limit = v.timeout
	}
	if v.output.dryRun || j.fleet != nil {
		return nil
	}
	return v.waiting.Do(ctx, func() error { return v.first.Try(ctx) })
}

// define gives the job the definition of a version, as the first call has left it.
func (j *job) define(v *calledVersion) (err error) {
	j.targets[v.variant] = v.first.Definition.Address
	j.services[v.variant], err = v.first.Definition.Encode()
	return err
}

func (l *loadFlags) scenario(versions []calledVersion) (_ *scenario.Scenario, err error) {
	clients := []int{l.clients}
	switch {
	case len(l.steps) > 0:
		clients = l.steps
	case l.requests > 0 && !l.given("concurrency"):
		clients = []int{min(l.clients, l.requests)}
	}
	if err := l.checkNumbers(); err != nil {
		return nil, err
	}
	holding, err := l.holding(versions[0].target)
	if err != nil {
		return nil, err
	}
	shape, requests, duration := l.shape, l.requests, l.duration
	if holding != nil && holding.OwnSchedule {
		shape.rate, shape.arrivals = l.streams.messageRate*float64(clients[0]), cmp.Or(shape.arrivals, string(scenario.Constant))
	}
	clients = holding.CallersOf(clients)
	switch {
	case l.given("duration"):
	case shape.goal != "":
		duration = searchStep
	case l.against != "":
		duration = versionWindow
	}
	if l.hasCountAndRate() {
		requests, shape = 0, shape.evenlySpread()
	}
	load, err := shape.load(requests, duration)
	if err == nil && l.hasCountAndRate() {
		err = l.limitRequests(&load)
	}
	if err != nil {
		return nil, err
	}
	if load.Requests > 0 && load.Model == scenario.Closed {
		load.Total, load.Requests = load.Requests, 0
	}
	part := scenario.Part{Name: loadName, Clients: clients, Load: load, Samples: l.samples, Sizes: []scenario.Payload{{}}}
	for i, v := range versions {
		variant := scenario.Variant{Stack: service.StackName}.With("wire", string(v.target.Wire))
		if l.inFlight != 0 {
			variant = variant.With("inflight", fmt.Sprint(l.inFlight))
		}
		if len(versions) > 1 {
			variant = variant.With(record.VersionOption, []string{record.BaseVersion, record.HeadVersion}[i])
		}
		part.Stacks = append(part.Stacks, variant)
	}
	part.OneByOne = holding != nil // streams are not held in turns
	part.Stretch = len(versions) > 1 && !l.given("duration")
	if part.Connection, err = l.connectionMode(versions[0].target); err != nil {
		return nil, fmt.Errorf("--conn: %w", err)
	}
	s := l.trialFlags.scenario(part, l.warmUpBefore(load))
	t := secret.HideData(versions[0].target.String())
	s.Title, s.Question = "Load of "+t, "How does "+t+" stand?"
	if len(versions) > 1 {
		head := secret.HideData(versions[1].target.String())
		if !l.given("repeat") {
			s.Parts[0].Repeats = matrix.LeastTrials
		}
		s.Title, s.Question = "Load of "+t+" and "+head, "Is "+head+" faster or slower than "+t+"?"
	}
	err = s.Check(anyNameVocabulary)
	if flag := flagsByScenarioKey[scenario.KeyOf(err)]; flag != "" {
		err = fmt.Errorf("%s: %w", flag, err)
	}
	return s, err
}

// checkRows refuses rows per second or per request that could not be kept.
func (l *loadFlags) checkRows() error {
	switch {
	case l.samples && l.output.unsaved:
		return errors.New("--samples and --no-save: the samples are files of the run: give only one of them")
	case l.series == "":
		return nil
	case l.fleet.IsNamed():
		return errors.New("--series: agents of a fleet keep no figures per second: leave out --series or --fleet")
	}
	return checkFolder("--series", l.series)
}

// checkProbes refuses options that do not go together with probes.
func (l *loadFlags) checkProbes() error {
	switch {
	case len(l.probes.names) == 0:
	case l.output.unsaved:
		return errors.New("--probe and --no-save: wirelab explain reads a saved run: give only one of them")
	case l.metrics != "" || len(l.push.targets) > 0:
		return errors.New("--probe and --metrics or --push: requests with a probe take longer, and their figures would be served, too: leave out one of them")
	}
	return nil
}

// anyNameVocabulary accepts every name in a load's scenario, because the target is already parsed.
var anyNameVocabulary = scenario.Vocabulary{
	CheckVariant:  func(scenario.Variant, scenario.Part) error { return nil },
	CheckWorkload: func(string) error { return nil },
	CheckPayload:  func(scenario.Part, scenario.Payload) error { return nil },
}

// flagsByScenarioKey maps each key of the scenario to the flag that sets the key.
var flagsByScenarioKey = map[string]string{
	"clients": "-c", "total-requests": "-n", "requests": "--burst", "rate": "--rps", "to": "--ramp-to", "stages": "--stages",
	"arrivals": "--arrivals", "repeats": "--repeat", "parts": "--repeat",
}

// checkNumbers refuses flag values that the scenario's fields cannot express.
func (l *loadFlags) checkNumbers() error {
	switch {
	case l.timeout < 0:
		return fmt.Errorf("--timeout: found %v: want 0s (no limit) or more", l.timeout)
	case l.retry < 0:
		return fmt.Errorf("--retry: found %d: want 0 (each request is sent once) or more", l.retry)
	case l.duration <= 0:
		return fmt.Errorf("-z: found %v: want more than 0s, as in 10s", l.duration)
	case l.wait < 0:
		return fmt.Errorf("--wait: found %v: want 0s or more, as in 30s", l.wait)
	case l.inFlight < 0:
		return fmt.Errorf("--inflight: found %d: want 1 or more", l.inFlight)
	case l.warmUp < 0:
		return fmt.Errorf("--warm-up: found %v: want 0s (no warm-up) or more", l.warmUp)
	case l.requests == 0 && l.given("requests"):
		return errors.New("-n 0: no requests would be made: give a number for all clients together, as in -n 100, or leave out -n to measure for the time of -z")
	case l.metrics != "":
		_, err := view.MetricsAddress(l.metrics)
		return err
	}
	return nil
}

// warmUpBefore returns the longest warm-up. By default, loads with -n, bursts and ramps have none:
// the requests of a warm-up would exceed the number that the user asked for.
func (l *loadFlags) warmUpBefore(load scenario.Load) time.Duration {
	if !l.given("warm-up") && (load.Total > 0 || load.Model == scenario.Burst || load.Model == scenario.Ramp) {
		return 0
	}
	return l.warmUp
}

// hasCountAndRate reports whether the load is -n requests at the rate of --rps.
func (l *loadFlags) hasCountAndRate() bool {
	s := &l.shape
	return l.requests > 0 && s.rate+l.streams.messageRate > 0 && s.rampTo == 0 && s.stages == "" && s.burst == 0 && s.goal == ""
}

// limitRequests makes the load -n requests at the rate of --rps. -z limits their time.
func (l *loadFlags) limitRequests(load *scenario.Load) error {
	const maxLoadTime = 24 * time.Hour
	seconds := float64(l.requests) / load.Rate
	if seconds > maxLoadTime.Seconds() {
		return fmt.Errorf("-n %d at --rps %v takes longer than %v: send fewer requests, or raise the rate", l.requests, load.Rate, maxLoadTime)
	}
	load.Total, load.Duration = l.requests, scenario.Duration(seconds*float64(time.Second))
	if l.given("duration") && l.duration.Seconds() < seconds {
		load.Total, load.Duration = max(1, int(load.Rate*l.duration.Seconds())), scenario.Duration(l.duration)
	}
	return nil
}

// findAlso returns the processes that --also names.
func (l *loadFlags) findAlso(d *service.Definition) (all []int, _ error) {
	switch {
	case len(l.also) == 0:
		return nil, nil
	case l.fleet.IsNamed():
		return nil, errors.New("--also: with --fleet, agents measure, and they do not know the service's processes: leave out --also or --fleet")
	case d.Network != "unix" && !lab.IsOwnAddress(d.Address):
		return nil, fmt.Errorf("--also: the service at %s is not at an address of this machine, so wirelab cannot see its processes: leave out --also, or run wirelab on the service's machine", d.Address)
	}
	for _, text := range l.also {
		found, err := host.FindNamed(text)
		if err != nil {
			return nil, fmt.Errorf("--also %s: %w", text, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

func (l *loadFlags) connectionMode(t service.Target) (scenario.Connection, error) {
	text := cmp.Or(l.connection, map[bool]string{true: "shared", false: "per-worker"}[t.Wire.IsGRPC()])
	if t.Wire == service.WebSocket && l.streams.InFlight > 1 {
		text = fmt.Sprintf("pool:%d", l.clients)
	}
	mode, err := scenario.ParseConnection(text)
	if err != nil {
		return mode, err
	}
	if mode.Mode == scenario.Resumed && !t.Secure || mode.Mode == scenario.Early {
		return mode, errors.New("found " + text + ": want shared, per-worker, pool:N, new, or with TLS resumed")
	}
	return mode, nil
}

// timeLimit returns the time limit of a load with both -n and -z. 0 means that there is no limit.
func (l *loadFlags) timeLimit() (time.Duration, error) {
	if l.requests == 0 || l.hasCountAndRate() || !l.given("duration") {
		return 0, nil
	}
	if len(l.steps) > 1 || l.repeats > 1 || len(l.probes.names) > 0 {
		return 0, errors.New("-n and -z: give only one of them with --steps, --repeat or --probe")
	}
	return l.duration, nil
}
