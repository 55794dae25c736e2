package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/show/view"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/reach"
)

// loading holds the flags of load. A load has no patience: it does not repeat requests to a
// service.
type loading struct {
	measureFlags
	trialFlags
	clients    int
	steps      []int
	requests   int
	shape      shapeFlags
	connection string
	inFlight   int
	timeout    time.Duration
	request    requestFlags
	grpc       methodFlags
	identity   identityFlags
	expect     expectFlags
	metrics    string
	journey    journeyFlags
	mayLoad    bool    // the target may be outside this machine and private networks
	traced     float64 // share of requests with a traceparent

	given func(flag string) bool
}

const loadName = "load"

func (a *app) loadCommand() *cobra.Command {
	var l loading
	cmd := &cobra.Command{
		Use:   "load TARGET",
		Short: "Load a service of your own, and show how fast it answers",
		Long: `Load calls a service that runs already, over HTTP/1.1, 2 or 3, or gRPC, and
prints how fast it answered, with checks of whether the figures can be
believed. It first makes one call, to check that the target answers.

TARGET is a URL: http://, https://, grpc://HOST:PORT/pkg.Service/Method, grpcs://,
connect:// and connects:// (unary calls of the Connect protocol, in JSON),
or unix:/path/of/a/socket; or a .yaml file that says what users do there, step by
step (docs/load-scenarios.md). Of a target that is neither on this machine nor on a
private network it asks first whether you may load it. If its first answer
redirects within the same server, the new path is loaded and printed.

--fail-if is a gate, with exit code 3: on a figure (mean, p50 to p99.99, max, rps,
errors, ok, client, server, ...), which alone decides; or, with --baseline RUN and
a percentage with its sign, on a change, whose whole interval must lie beyond the
limit. A run is compared with the cells of an earlier one with the same requests and
load, at any address. A condition that cannot be judged gives exit code 4:
docs/load.md lists all forms of conditions.`,
		Example: `  wirelab load http://127.0.0.1:8080/
  wirelab load -c 50 -z 10s http://127.0.0.1:8080/items?limit=10
  wirelab load -n 1000 -m POST -H 'Content-Type: application/json' -d '{"name":"x"}' http://127.0.0.1:8080/items
  wirelab load --rps 2000 -z 30s --http 2 https://127.0.0.1:8443/ -k
  wirelab load grpc://127.0.0.1:50051/helloworld.Greeter/SayHello -d '{"name":"x"}'
  wirelab load --goal 'p99<10ms' http://127.0.0.1:8080/     # the highest rate that keeps it
  wirelab load --traceparent 0.01 http://127.0.0.1:8080/    # trace one in a hundred, and name the slowest
  wirelab load --fail-if 'p99>20ms' --fail-if 'errors>0.1%' --junit load.xml http://127.0.0.1:8080/   # exit code 3 if so
  wirelab load --repeat 3 --baseline results-before --fail-if 'p99>+10%' http://127.0.0.1:8080/       # or if it became slower`,
		Args: wants(1, 1, "one target, as in wirelab load http://127.0.0.1:8080/"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.load(cmd.Context(), &l, args[0])
		},
	}
	l.register(cmd)
	return cmd
}

// register adds the flags. Their defaults are small, so that a careless load does not hurt a
// service.
func (l *loading) register(cmd *cobra.Command) {
	f := cmd.Flags()
	l.given, l.gates.strict = f.Changed, true
	f.IntVarP(&l.clients, "concurrency", "c", 10, "`clients` at once, each with one request in flight")
	f.IntSliceVar(&l.steps, "steps", nil, "several numbers of `clients`, one after the other, as in 1,10,100 (instead of -c)")
	f.IntVarP(&l.requests, "requests", "n", 0, "`requests` of all clients together, without a warm-up (instead of -z); with --rps evenly spread")
	l.shape.register(cmd)
	f.StringVar(&l.connection, "conn", "", "connection `mode`: shared, per-worker, pool:N or new (default: shared with gRPC, per-worker with HTTP)")
	f.IntVar(&l.inFlight, "inflight", 0, "most `requests` in flight at once, of all clients; the wait for a place is measured")
	f.DurationVar(&l.timeout, "timeout", 20*time.Second, "longest `time` that a request may take")
	f.String("from", "", "`TOOL COMMAND`: a command or a file of another tool, in place of TARGET, as in --from curl 'curl http://127.0.0.1:8080/'") // read by asLoad
	f.StringVar(&l.metrics, "metrics", "", "serve the load's figures to Prometheus meanwhile, at this `address`, as in :9090")
	f.BoolVar(&l.mayLoad, "yes-i-may", false, "load a target that is neither on this machine nor on a private network")
	l.request.register(cmd)
	l.grpc.register(cmd)
	l.identity.register(f)
	l.expect.register(f)
	l.journey.register(f)
	l.trialFlags.register(cmd, 5*time.Second, 1)
	l.output.register(cmd)
	l.gates.register(cmd)
	l.gates.registerFiles(cmd)
	l.fleet.register(cmd)
	f.Float64Var(&l.traced, "traceparent", 0, "`share` of the requests that carry a traceparent header, as 0.01, for your tracing system; the slowest ones are printed")
	complete(cmd, "traceparent", []string{"0.001", "0.01", "0.1", "1"})
	f.Lookup("link").Usage = "not possible for a service that already runs: prints what to do instead of this `link`"
	complete(cmd, "conn", []string{"shared", "per-worker", "pool:4", "new"})
}

func (a *app) load(ctx context.Context, l *loading, text string) error {
	text, err := l.journey.read(text)
	if err != nil {
		return usage(err)
	}
	target, err := l.request.target(text, l.grpc.usualScheme())
	if err == nil {
		err = l.grpc.apply(&target)
	}
	if err != nil {
		return usage(err)
	}
	s, err := l.scenario(target)
	if err != nil {
		return usage(err)
	}
	if err := errors.Join(refuseLink(l.link.links), l.journey.check(s, l)); err != nil {
		return usage(err)
	}
	j, err := l.job(a, s, true)
	if err != nil {
		return usage(err)
	}
	if err := a.permit(ctx, l, target); err != nil {
		return err
	}
	definition, first, err := l.define(ctx, target)
	if err != nil {
		return err
	}
	l.journey.apply(definition)
	if !l.output.dryRun {
		trying := reach.First{Definition: definition, Request: first, Script: l.journey.script, Seed: l.seed, Notes: a.stderr}
		if l.given("timeout") {
			trying.Limit = l.timeout
		}
		if err := trying.Try(ctx); err != nil {
			return err
		}
	}
	if s.Parts[0].Definition, err = definition.Encode(); err != nil {
		return err
	}
	s.Parts[0].Workload = definition.Label()
	j.load = &loadRun{title: s.Title, metrics: l.metrics}
	if j.load.limit, err = l.bound(); err != nil {
		return usage(err)
	}
	j.targets = map[string]string{service.Stack: definition.Address}
	return a.execute(ctx, j)
}

// permit asks for permission to load a target outside this machine and outside private networks.
func (a *app) permit(ctx context.Context, l *loading, t service.Target) error {
	if l.mayLoad || t.Socket != "" || l.output.dryRun {
		return nil
	}
	addresses, err := reach.AddressesOf(ctx, t.Host)
	if err != nil {
		return err // no second lookup: a name server may hang
	}
	for _, address := range addresses {
		if reach.IsNear(address.Unmap()) {
			continue
		}
		refusal := fmt.Errorf("%s is at %s, which is neither this machine nor a private network: if it is yours to load, say so with --yes-i-may", t.Host, address.Unmap())
		if in, is := a.stdin.(*os.File); is && term.IsTerminal(int(in.Fd())) {
			fmt.Fprintf(a.stderr, "%s is at %s, which is neither this machine nor a private network. May you load it? Type yes: ", t.Host, address.Unmap())
			answer, _ := bufio.NewReader(in).ReadString('\n')
			if strings.TrimSpace(answer) == "yes" {
				return nil
			}
		}
		return usage(refusal)
	}
	return nil
}

func (l *loading) scenario(t service.Target) (_ *scenario.Scenario, err error) {
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
	shape, requests, duration := l.shape, l.requests, l.duration
	if shape.goal != "" && !l.given("duration") {
		duration = searchStep
	}
	if l.isCounted() {
		if duration, err = l.timeOfRequests(); err != nil {
			return nil, err
		}
		requests, shape = 0, shape.evenly()
	}
	load, err := shape.load(requests, duration)
	if err != nil {
		return nil, err
	}
	if load.Requests > 0 && load.Model == scenario.Closed {
		load.Total, load.Requests = load.Requests, 0
	}
	part := scenario.Part{Name: loadName, Clients: clients, Load: load, Sizes: []scenario.Payload{{}}}
	variant := scenario.Variant{Stack: service.Stack}.With("wire", string(t.Wire))
	if l.inFlight != 0 {
		variant = variant.With("inflight", fmt.Sprint(l.inFlight))
	}
	part.Stacks = []scenario.Variant{variant}
	if part.Connection, err = l.connectionMode(t); err != nil {
		return nil, fmt.Errorf("--conn: %w", err)
	}
	s := l.trialFlags.scenario(part, l.warmUpBefore(load))
	s.Title, s.Question = "Load of "+t.String(), "How does "+t.String()+" stand?"
	err = s.Check(anyService)
	if flag := loadFlags[scenario.KeyOf(err)]; flag != "" {
		err = fmt.Errorf("%s: %w", flag, err)
	}
	return s, err
}

// anyService accepts every name in the scenario of a load, because the target is already parsed.
var anyService = scenario.Vocabulary{
	CheckVariant:  func(scenario.Variant, scenario.Part) error { return nil },
	CheckWorkload: func(string) error { return nil },
	CheckPayload:  func(scenario.Part, scenario.Payload) error { return nil },
}

// loadFlags maps keys of the scenario to the flags that set them.
var loadFlags = map[string]string{
	"clients": "-c", "total-requests": "-n", "requests": "--burst", "rate": "--rps", "to": "--ramp-to",
	"arrivals": "--arrivals", "repeats": "--repeat", "parts": "--repeat",
}

// checkNumbers refuses values of flags that a scenario cannot hold, or would read as absent.
func (l *loading) checkNumbers() error {
	switch {
	case l.timeout < 0:
		return fmt.Errorf("--timeout: found %v: want 0s (no limit) or more", l.timeout)
	case l.duration <= 0:
		return fmt.Errorf("-z: found %v: want more than 0s, as in 10s", l.duration)
	case l.inFlight < 0:
		return fmt.Errorf("--inflight: found %d: want 1 or more", l.inFlight)
	case l.warmUp < 0:
		return fmt.Errorf("--warm-up: found %v: want 0s (no warm-up) or more", l.warmUp)
	case l.requests == 0 && l.given("requests"):
		return errors.New("-n 0: no requests would be made: give a number for all clients together, as in -n 100, or leave it out to measure for the time of -z")
	case l.metrics != "":
		_, err := view.MetricsAddress(l.metrics)
		return err
	}
	return nil
}

// warmUpBefore returns the longest warm-up. A number of requests, a burst or a ramp has none: a
// warm-up is a closed loop, which would send more than the user asked for.
func (l *loading) warmUpBefore(load scenario.Load) time.Duration {
	if !l.given("warm-up") && (load.Total > 0 || l.isCounted() || load.Model == scenario.Burst || load.Model == scenario.Ramp) {
		return 0
	}
	return l.warmUp
}

// isCounted reports whether a number of requests is sent at a constant rate.
func (l *loading) isCounted() bool {
	s := &l.shape
	return l.requests > 0 && s.rate > 0 && s.rampTo == 0 && s.burst == 0 && s.goal == ""
}

// timeOfRequests returns the time of -n requests at the rate, or -z if that is less.
func (l *loading) timeOfRequests() (time.Duration, error) {
	const mostLoadTime = 24 * time.Hour
	seconds := float64(l.requests) / l.shape.rate
	if seconds > mostLoadTime.Seconds() {
		return 0, fmt.Errorf("-n %d at --rps %v takes longer than %v: send fewer requests, or raise the rate", l.requests, l.shape.rate, mostLoadTime)
	}
	takes := time.Duration(seconds * float64(time.Second))
	if l.given("duration") {
		takes = min(takes, l.duration)
	}
	return takes, nil
}

func (l *loading) connectionMode(t service.Target) (scenario.Connection, error) {
	text := cmp.Or(l.connection, map[bool]string{true: "shared", false: "per-worker"}[t.Wire.IsGRPC()])
	mode, err := scenario.ParseConnection(text)
	if err != nil {
		return mode, err
	}
	if mode.Mode == scenario.Resumed && !t.Secure || mode.Mode == scenario.Early {
		return mode, errors.New("found " + text + ": want shared, per-worker, pool:N or new")
	}
	return mode, nil
}

// bound returns the time limit of a load of -n requests, if -z is also given.
func (l *loading) bound() (time.Duration, error) {
	if l.requests == 0 || l.isCounted() || !l.given("duration") {
		return 0, nil
	}
	if len(l.steps) > 1 || l.repeats > 1 {
		return 0, errors.New("-n and -z: give only one of them with --steps or --repeat")
	}
	return l.duration, nil
}

// refuseLink explains why a user's service is not loaded over an emulated link, and the
// alternative. Both ends of a link are network namespaces that wirelab makes, but this server
// already listens elsewhere. An interface in the machine's own network would reach it only if it
// listens on every address, and would affect all programs.
func refuseLink(links []string) error {
	wanted := slices.IndexFunc(links, func(text string) bool { return text != plan.NoLink })
	if wanted < 0 {
		return nil
	}
	network, err := scenario.ParseLink(links[wanted])
	if err != nil {
		return fmt.Errorf("--link: %w", err)
	}
	netem := "delay 5ms loss 1%"
	if up, down := network.Ways(); up == down {
		netem = netemOf(up)
	}
	return fmt.Errorf("--link: both ends of an emulated link are network namespaces of the trial, and a running service cannot be moved into one: slow down the interface to it, as in `tc qdisc add dev lo root netem %s`, for all programs until `tc qdisc del dev lo root`; or start it by `ip netns exec`, at the other end of a veth pair with that qdisc, and load its address there; stacks of wirelab's own are compared over a link by `wirelab compare --link %s`",
		netem, links[wanted])
}

// netemOf writes a path with the options of tc-netem(8), as far as these can express it.
func netemOf(p scenario.Path) string {
	var words []string
	if p.Delay > 0 {
		words = append(words, "delay "+time.Duration(p.Delay).String())
		if p.Jitter > 0 {
			words = append(words, time.Duration(p.Jitter).String())
		}
	}
	if p.Loss > 0 {
		words = append(words, fmt.Sprintf("loss %g%%", 100*float64(p.Loss)))
	}
	if p.Rate > 0 {
		words = append(words, fmt.Sprintf("rate %dbit", p.Rate))
	}
	if len(words) == 0 {
		return "delay 5ms"
	}
	return strings.Join(words, " ")
}
