package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/run/levers"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/wire/stack/catalog"
	workloads "wirelab.dev/internal/wire/workload/catalog"
)

type compareFlags struct {
	measureFlags
	trialFlags
	stacks            []string
	sizes             []string
	clients           []int
	requests          int
	shape             shapeFlags
	connections       []string
	tls               bool
	workload          string
	workloads         []string // values of --workload; a comparison has only one
	message           messageFlags
	described         string // describes the user's own message; empty if there is none
	samples, oneByOne bool
	fixedWindow       bool // the user has given the window's length
	targets           []string
	trust             trustFlags
	try               tryFlags
}

// defaultSizes has only two sizes, so that the default comparison takes about two minutes.
var defaultSizes = []string{"64", "4KiB"}

func (a *app) compareCommand() *cobra.Command {
	var c compareFlags
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Compare stacks on this machine: print a table, a report and a recommendation",
		Long: `Compare runs the same service over each stack, in separate processes, and
prints one line per cell. Then it says which stack is fastest, where throughput stops
growing, and which stack has the shortest tail. Without arguments it compares tcp, rest
and grpc in two minutes.

It measures each point three times, and then repeats the points whose comparison is
undecided, until all are decided or --budget is over. With --until it repeats without
a time limit, or until each mean is known within a width. It looks at the results a
few times. The chance of a false finding is 5 % for all looks together
(docs/statistics.md). The variants of a point take turns of tens of milliseconds, so
that other programs disturb all of them alike. Without -z, windows become up to four
times as long after the third repeat, if that makes intervals narrower in the same time.

A variant is a stack with options: tcp:buffers=pooled,inflight=50. wirelab list
shows all stacks and options.`,
		Example: `  wirelab compare
  wirelab compare --stack tcp,rest,grpc --size 64,4KiB -c 1,50 -n 200 --repeat 2
  wirelab compare --stack tcp,tcp:buffers=pooled --size 64KiB -c 100 -z 2s
  wirelab compare --stack h1,h2,h3,grpc,grpc-h3 --tls --conn new --size 256 -c 200 -n 10
  wirelab compare --stack h2,h3,grpc --tls --link delay=5ms,loss=1% -c 16      # over a slow network with losses
  wirelab compare --link none --link lan --link lte,loss=0.5%  # each stack over each link
  wirelab compare --stack grpc --rps 5000 --arrivals poisson -z 5s
  wirelab compare --stack grpc,rest --burst 1000 -c 200        # 1,000 requests at once: time until all are answered
  wirelab compare --stack grpc --goal 'p99<10ms' -c 100        # the highest rate that keeps the goal
  wirelab compare --goal 'p99<10ms' --dry-run                  # print how long this would take
  wirelab compare --stack tcp,grpc -c 50 --budget 10m          # finds smaller differences
  wirelab compare --stack tcp,grpc --size 64 -c 1 --probe life,syscalls,cpu   # also show the reasons
  wirelab compare --stack grpc --size 1MiB -c 4 --try                         # then try levers on it
  wirelab compare --stack grpc --baseline results --fail-if 'p99 > +10%'      # did it become slower?
  wirelab compare --proto shop.proto --call shop.v1.Shop/PlaceOrder --data order.json
  wirelab compare --stack tcp --target 127.0.0.1:9000 -c 10   # a server of your own
  wirelab compare --stack h2 --tls --target 127.0.0.1:8443 --cacert root.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(c.workloads) > 1 {
				return usageError(fmt.Errorf("--workload: found %d (%s): a comparison has one workload; write a scenario with a part for each, and measure it with wirelab run (docs/scenarios.md)", len(c.workloads), strings.Join(c.workloads, ", ")))
			}
			c.workload = c.workloads[0]
			return a.compare(cmd, &c, c.scenario)
		},
	}
	c.register(cmd)
	c.registerShared(cmd, "tcp,rest,grpc", defaultDuration)
	c.measureFlags.register(cmd)
	c.until.registerBudget(cmd)
	c.try.register(cmd)
	setCompletions(cmd, "conn", scenario.ConnectionModes())
	setCompletions(cmd, "workload", plan.WorkloadsWithOptions())
	setCompletions(cmd, "size", []string{"64", "256", "1KiB", "4KiB", "64KiB", "64/4KiB", "4KiB/64"})
	return cmd
}

func (c *compareFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&c.sizes, "size", defaultSizes, "payload `bytes` of request and response: one size for both, as in 64,4KiB, or two, as in 64/4KiB")
	f.IntSliceVarP(&c.clients, "concurrency", "c", []int{1, 4, 16, 50, 100, 200}, "`clients` at once, each with one request in flight")
	f.IntVarP(&c.requests, "requests", "n", 0, "measured `requests` per client (instead of -z)")
	c.shape.register(cmd)
	f.StringSliceVar(&c.connections, "conn", nil, "connection `modes`: shared, per-worker, pool, pool:N, new, resumed or 0rtt (default: each stack's own)")
	f.StringArrayVar(&c.workloads, "workload", []string{"echo"}, "`service` to call, as in users:op=get-user,work=0s")
	c.message.register(f)
	f.BoolVar(&c.oneByOne, "one-by-one", false, "measure one variant after another, instead of letting the variants of a point take turns of tens of milliseconds")
	f.BoolVar(&c.samples, "samples", false, "save every sample in Parquet files")
	c.trust.register(f)
}

// registerShared adds the flags that compare and ping have in common.
func (c *compareFlags) registerShared(cmd *cobra.Command, stacks string, duration time.Duration) {
	f := cmd.Flags()
	f.StringArrayVar(&c.stacks, "stack", []string{stacks}, "`variants` to compare, as in tcp,grpc:conns=4 (also given several times)")
	f.BoolVar(&c.tls, "tls", false, "use TLS 1.3 on every stack that can also run without TLS: the same as tls=on in each variant")
	f.StringArrayVar(&c.targets, "target", nil, "use a server that is already running: `[STACK=]HOST:PORT`")
	c.trialFlags.register(cmd, duration, 3)
	setCompletions(cmd, "stack", plan.StackNames())
}

func (a *app) compare(cmd *cobra.Command, c *compareFlags, define func() (*scenario.Scenario, error)) error {
	j, err := c.newJob(a, cmd, define)
	if err != nil {
		return usageError(err)
	}
	if c.described != "" {
		fmt.Fprintln(a.stderr, strings.TrimSpace(c.described))
	}
	return a.execute(cmd.Context(), j)
}

func (c *compareFlags) newJob(a *app, cmd *cobra.Command, define func() (*scenario.Scenario, error)) (job, error) {
	c.fixedWindow = cmd.Flags().Changed("duration")
	s, err := define()
	if err != nil {
		return job{}, err
	}
	if c.try.wanted() {
		c.try.began, c.try.budget = time.Now(), c.until.budget
		if err := cmp.Or(c.try.check(), levers.CheckComparison(s, c.fleet.FleetWanted, len(c.targets) > 0)); err != nil {
			return job{}, err
		}
		c.until.tries, c.output.later = true, true
		if len(c.probes.names) == 0 {
			c.probes.names = []string{"life", "cpu"}
		}
	}
	s, warnings, err := c.probes.apply(s, c.fleet, scenarioLibrary.Vocabulary())
	if err != nil {
		return job{}, err
	}
	j, err := c.baseJob(a, s, len(c.targets) > 0)
	if err != nil {
		return job{}, err
	}
	j.warnings, j.try = warnings, &c.try
	if j.until, err = c.until.read(cmd, s); err != nil {
		return job{}, err
	}
	if j.targets, err = plan.ParseTargets(c.targets, s); err != nil {
		return job{}, err
	}
	j.trust, err = c.trust.read(j.targets)
	return j, err
}

func (c *compareFlags) scenario() (*scenario.Scenario, error) {
	part := scenario.Part{Name: "compare", Workload: c.workload, Clients: c.clients, Samples: c.samples, OneByOne: c.oneByOne}
	if c.warmUp < 0 {
		return nil, fmt.Errorf("--warm-up: want 0s or more, found %v", c.warmUp)
	}
	for _, text := range c.stacks {
		variants, err := scenario.ParseVariants(text)
		if err != nil {
			return nil, fmt.Errorf("--stack: %w", err)
		}
		part.Stacks = append(part.Stacks, variants...)
	}
	for i, v := range part.Stacks {
		if c.tls {
			v = catalog.Secure(v)
			part.Stacks[i] = v
		}
		if err := catalog.Check(v); err != nil {
			return nil, fmt.Errorf("--stack: %w", err)
		}
	}
	if err := c.setConnection(&part); err != nil {
		return nil, fmt.Errorf("--conn: %w", err)
	}
	var err error
	c.described, err = c.message.define(&part, c.workload)
	if err == nil && c.described == "" {
		err = c.setWorkload(&part)
	}
	if err != nil {
		return nil, err
	}
	if part.Load, err = c.shape.load(c.requests, c.duration); err != nil {
		return nil, err
	}
	part.Stretch = !c.fixedWindow
	s := c.trialFlags.scenario(part, c.warmUp)
	s.Title = "Comparison of " + joinVariants(part.Stacks)
	s.Question = "Which of " + joinVariants(part.Stacks) + " is fastest here, and which has the shortest tail?" + c.described
	if len(part.Stacks) == 1 {
		s.Question = "How long does a call over " + joinVariants(part.Stacks) + " take here?" + c.described
	}
	if len(c.link.links) > 0 && len(c.targets) > 0 {
		return nil, errors.New("--link cannot be used with --target: a link connects processes that wirelab starts; leave out one of the two")
	}
	if err := plan.ApplyLinks(s, c.link.links); err != nil {
		return nil, err
	}
	return s, s.Check(scenarioLibrary.Vocabulary())
}

// setWorkload sets the part's workload. It sets payload sizes only if the workload has sizes.
func (c *compareFlags) setWorkload(part *scenario.Part) error {
	written, err := scenario.ParseWorkload(c.workload)
	if err == nil {
		_, _, err = workloads.Find(c.workload)
	}
	if err != nil {
		return fmt.Errorf("--workload: %w", err)
	}
	part.Workload = written.String()
	for _, v := range part.Stacks {
		if err := plan.CheckCallKinds(v, part.Workload); err != nil {
			return fmt.Errorf("--workload: %w", err)
		}
	}
	if !plan.IsSized(part.Workload) && slices.Equal(c.sizes, defaultSizes) {
		part.Sizes = []scenario.Payload{{}}
		return nil
	}
	for _, text := range c.sizes {
		size, err := scenario.ParsePayload(text)
		if err != nil {
			return fmt.Errorf("--size: %w", err)
		}
		part.Sizes = append(part.Sizes, size)
	}
	return nil
}

// setConnection sets the connection mode. With several modes, it adds each stack once per mode.
func (c *compareFlags) setConnection(part *scenario.Part) error {
	modes := make([]scenario.Connection, len(c.connections))
	for i, text := range c.connections {
		var err error
		if modes[i], err = scenario.ParseConnection(text); err != nil {
			return err
		}
	}
	switch len(modes) {
	case 0:
	case 1:
		part.Connection = modes[0]
	default:
		stacks := part.Stacks
		part.Stacks = nil
		for _, v := range stacks {
			part.Stacks = append(part.Stacks, lists.Map(modes, func(m scenario.Connection) scenario.Variant { return v.With("conn", m.String()) })...)
		}
	}
	for _, v := range part.Stacks {
		if err := catalog.CheckConnection(v, part.Connection); err != nil {
			return err
		}
	}
	return nil
}

func joinVariants(variants []scenario.Variant) string {
	return words.List(lists.Map(variants, scenario.Variant.String))
}

type pingFlags struct {
	compareFlags
	inFlight string
	stream   bool
}

func (a *app) pingCommand() *cobra.Command {
	var p pingFlags
	cmd := &cobra.Command{
		Use:   "ping",
		Short: "Vary the number of calls in flight, and name what limits throughput",
		Long: `Ping calls with an empty message, with more and more calls in flight, over each
connection mode. It prints throughput and latency beside two lines: the ideal one (the
throughput of one call times the calls in flight), and the universal scalability
law fitted to the results. Then it names the bottleneck
and its figures, if there is one.`,
		Example: `  wirelab ping --stack grpc --inflight 1..48 --conns shared,per-worker,pool:4
  wirelab ping --stack tcp,h2 --inflight 1,2,4,8,16 --conns shared,pool:4 -z 2s
  wirelab ping --stack grpc --stream
  wirelab ping --stack grpc --inflight 1,48 --link delay=5ms
  wirelab ping --dry-run     # how many trials, and about how long`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.compare(cmd, &p.compareFlags, p.scenario)
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.inFlight, "inflight", "1..48", "calls in `flight`: FIRST..LAST, or a list")
	f.StringSliceVar(&p.connections, "conns", []string{"shared", "per-worker", "pool:4"}, "connection `modes`, each measured with all numbers of calls in flight")
	f.BoolVar(&p.stream, "stream", false, "send each ping as a message of a stream that stays open")
	p.registerShared(cmd, "grpc", time.Second)
	p.output.register(cmd)
	setCompletions(cmd, "conns", scenario.ConnectionModes())
	return cmd
}

func (p *pingFlags) scenario() (*scenario.Scenario, error) {
	var err error
	if p.clients, err = plan.ParseInFlight(p.inFlight); err != nil {
		return nil, fmt.Errorf("--inflight: %w", err)
	}
	p.workload, p.sizes = "ping", []string{"0"}
	if p.stream {
		p.workload = "chat"
	}
	s, err := p.compareFlags.scenario()
	if err != nil {
		return nil, err
	}
	s.Name = "ping"
	s.Title = "Ping over " + joinVariants(s.Parts[0].Stacks)
	s.Question = "What limits throughput as the calls in flight increase?"
	for i := range s.Parts {
		s.Parts[i].Name = "ping" + strings.TrimPrefix(s.Parts[i].Name, "compare")
		s.Parts[i].Of = strings.Replace(s.Parts[i].Of, "compare", "ping", 1)
	}
	return s, nil
}
