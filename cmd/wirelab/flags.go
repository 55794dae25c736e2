package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/levers"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/held"
	"wirelab.dev/internal/wire/workload/message"
)

const defaultDuration = 300 * time.Millisecond

// trialFlags holds the flags that say how each cell is measured.
type trialFlags struct {
	duration, warmUp time.Duration
	repeats          int
	seed             uint64
	link             linkFlag
}

func (t *trialFlags) register(cmd *cobra.Command, duration time.Duration, repeats int) {
	f := cmd.Flags()
	f.DurationVarP(&t.duration, "duration", "z", duration, "length of each measured `window`")
	f.DurationVar(&t.warmUp, "warm-up", 3*time.Second, "longest `time` to wait for a steady state before the window")
	f.IntVar(&t.repeats, "repeat", repeats, "how many `times` each cell is measured, with new processes each time; intervals need three")
	f.Uint64Var(&t.seed, "seed", 1, "`seed` of the trials' order, arrivals and random values")
	t.link.register(cmd)
}

// scenario returns a scenario with this one part. It sets Reduction, which every scenario needs.
func (t *trialFlags) scenario(part scenario.Part, warmUp time.Duration) *scenario.Scenario {
	part.Repeats = t.repeats
	part.WarmUp = scenario.WarmUp{AtLeast: scenario.Duration(min(warmUp, 250*time.Millisecond)), AtMost: scenario.Duration(warmUp)}
	return &scenario.Scenario{
		Version: scenario.Version, Name: part.Name, Seed: t.seed, Parts: []scenario.Part{part},
		Reduction: scenario.Reduction{Requests: 1, MaxClients: 1, Repeats: 1},
	}
}

// shapeFlags holds the flags for every kind of load except a closed loop.
type shapeFlags struct {
	rate, rampTo float64
	stages       string
	arrivals     string
	burst        int
	goal         string
	given        func(flag string) bool // reports whether the command line has the flag
}

func (s *shapeFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	s.given = f.Changed
	f.Float64Var(&s.rate, "rps", 0, "open loop: total `requests` per second, sent on schedule without waiting for answers")
	f.StringVar(&s.arrivals, "arrivals", "", "open loop: `spread` of the arrivals, poisson or constant (default poisson; constant in a ramp)")
	f.Float64Var(&s.rampTo, "ramp-to", 0, "open loop: change the rate evenly from --rps to these `requests` per second")
	f.StringVar(&s.stages, "stages", "", "open loop: `TIME:RATE,…`: change the rate evenly to each RATE within its TIME, as in 30s:100,2m:500,30s:0; from --rps, or from 0")
	f.IntVar(&s.burst, "burst", 0, "send this many `requests` at one instant, and measure the time until all are answered")
	f.StringVar(&s.goal, "goal", "", "search for the highest rate that keeps a `goal` of the response time, as in p99<10ms")
	setCompletions(cmd, "arrivals", []string{"poisson", "constant"})
	setCompletions(cmd, "stages", []string{"30s:100,2m:500,30s:0"})
}

// searchStep is the default length of each step in a search for the highest rate (--goal).
const searchStep = time.Second

// checkZeros refuses a flag with the value zero, because the code reads zero as "flag not given".
func (s *shapeFlags) checkZeros(requests int) error {
	if s.given == nil {
		return nil // the command ping does not have these flags
	}
	for _, zero := range []struct {
		flag string
		is   bool
		says string
	}{
		{"rps", s.rate == 0, "--rps 0: no requests would be sent: give a rate, as in --rps 5000, or leave out --rps for a closed loop, in which each client sends its next request after an answer"},
		{"ramp-to", s.rampTo == 0, "--ramp-to 0: a ramp cannot end with no requests: give its last rate, as in --ramp-to 5000"},
		{"stages", s.stages == "", "--stages is empty: want times and rates, as in 30s:100,2m:500,30s:0"},
		{"burst", s.burst == 0, "--burst 0: no requests would be sent: give a number, as in --burst 1000"},
		{"goal", s.goal == "", "--goal is empty: want a percentile and its limit, as in p99<10ms"},
		{"requests", requests == 0, "-n 0: no requests would be measured: give a number per client, as in -n 100, or leave out -n to measure for the time of -z"},
	} {
		if zero.is && s.given(zero.flag) {
			return errors.New(zero.says)
		}
	}
	return nil
}

// evenlySpread returns the flags for sending -n requests at a rate. By default the arrivals are
// constant, so the load has exactly -n requests. The result reports -n as not given.
func (s shapeFlags) evenlySpread() shapeFlags {
	if s.arrivals == "" {
		s.arrivals = string(scenario.Constant)
	}
	if given := s.given; given != nil {
		s.given = func(flag string) bool { return flag != "requests" && given(flag) }
	}
	return s
}

func (s *shapeFlags) load(requests int, duration time.Duration) (scenario.Load, error) {
	if err := s.checkZeros(requests); err != nil {
		return scenario.Load{}, err
	}
	given := 0
	for _, set := range []bool{s.rate != 0 || s.stages != "", s.burst != 0, s.goal != ""} {
		if set {
			given++
		}
	}
	switch {
	case given > 1:
		return scenario.Load{}, errors.New("--rps or --stages, --burst and --goal are different loads: give one of them")
	case requests < 0:
		return scenario.Load{}, fmt.Errorf("-n: found %d requests: want 1 or more", requests)
	case !(s.rate >= 0 && s.rate <= math.MaxFloat64):
		return scenario.Load{}, fmt.Errorf("--rps: found %v requests per second: want more than 0", s.rate)
	case !(s.rampTo >= 0 && s.rampTo <= math.MaxFloat64):
		return scenario.Load{}, fmt.Errorf("--ramp-to: found %v requests per second: want more than 0", s.rampTo)
	case s.burst < 0:
		return scenario.Load{}, fmt.Errorf("--burst: found %d requests: want 1 or more", s.burst)
	case given > 0 && requests > 0:
		return scenario.Load{}, errors.New("-n is only for a closed loop: with --rps or --goal give -z; with --burst leave out -n and -z")
	case s.rampTo != 0 && s.rate == 0:
		return scenario.Load{}, errors.New("--ramp-to needs --rps: give the rate at the start of the ramp")
	case s.stages != "" && (s.rampTo != 0 || s.given("duration")):
		return scenario.Load{}, errors.New("--stages has times and rates of its own: leave out -z and --ramp-to")
	case s.arrivals != "" && s.rate == 0 && s.stages == "":
		return scenario.Load{}, errors.New("--arrivals is only for an open loop: give --rps")
	}
	load := scenario.Load{Rate: s.rate, To: s.rampTo, Arrivals: scenario.Arrivals(s.arrivals), Requests: requests, Duration: scenario.Duration(duration)}
	switch {
	case s.burst > 0:
		return scenario.Load{Model: scenario.Burst, Requests: s.burst}, nil
	case s.goal != "":
		goal, err := scenario.ParseGoal(s.goal)
		if err != nil {
			return scenario.Load{}, fmt.Errorf("--goal: %w", err)
		}
		if duration == defaultDuration {
			load.Duration = scenario.Duration(searchStep)
		}
		load.Model, load.Goal = scenario.Search, goal
	case s.stages != "":
		if _, err := record.Stages(s.stages).Parse(s.rate); err != nil {
			return load, fmt.Errorf("--stages: %w", err)
		}
		load.Model, load.Stages, load.Duration = scenario.Ramp, record.Stages(s.stages), 0 // SetDefaults sets the duration
	case s.rampTo != 0:
		load.Model = scenario.Ramp
	case s.rate > 0:
		load.Model = scenario.Open
	default:
		load.Model = scenario.Closed
		if requests > 0 {
			load.Duration = 0
		}
	}
	load.SetDefaults()
	return load, nil
}

// trustFlags holds the flags that say which certificates of a --target are trusted.
type trustFlags struct {
	insecure bool
	rootFile string
}

func (t *trustFlags) register(f *pflag.FlagSet) {
	f.BoolVarP(&t.insecure, "insecure", "k", false, "accept any certificate of a --target over TLS")
	f.StringVar(&t.rootFile, "cacert", "", "trust the root certificates in this PEM `file` (default: the system's) for a --target over TLS")
}

func (t *trustFlags) read(targets map[string]string) (secure.Trust, error) {
	if *t != (trustFlags{}) && len(targets) == 0 {
		return secure.Trust{}, errors.New("--insecure and --cacert are only for a server of your own: name the server with --target")
	}
	return t.trust()
}

func (t *trustFlags) trust() (trust secure.Trust, err error) {
	if t.insecure && t.rootFile != "" {
		return trust, errors.New("--insecure and --cacert: give one of them")
	}
	trust.SkipVerify = t.insecure
	err = readFiles(fileFlag{"--cacert", t.rootFile, &trust.RootPEM})
	return trust, err
}

// A fileFlag is a flag whose value is the name of a file. readFiles skips an empty name.
type fileFlag struct {
	flag, name string
	into       *[]byte
}

func readFiles(files ...fileFlag) error {
	for _, file := range files {
		if file.name == "" {
			continue
		}
		var err error
		if *file.into, err = os.ReadFile(file.name); err != nil {
			return fmt.Errorf("%s: %w", file.flag, err)
		}
	}
	return nil
}

type messageFlags struct {
	proto, call string
	imports     []string
	data, reply string
}

func (m *messageFlags) register(f *pflag.FlagSet) {
	f.StringVar(&m.proto, "proto", "", "compare with messages of your own: the .proto `file` that defines the service")
	f.StringArrayVar(&m.imports, "import-path", nil, "`directory` of --proto and its imports (default: the directory of the --proto file)")
	f.StringVar(&m.call, "call", "", "unary `method` of --proto, as in shop.v1.Shop/PlaceOrder")
	f.StringVar(&m.data, "data", "", "`file` with the request as JSON")
	f.StringVar(&m.reply, "reply", "", "`file` with the response as JSON (default: the request if both have the same type, otherwise an empty message)")
}

// define sets the part's workload to the user's message. Without --proto it does nothing.
func (m *messageFlags) define(part *scenario.Part, workload string) (described string, err error) {
	if m.proto == "" {
		if m.call != "" || m.data != "" || m.reply != "" || len(m.imports) > 0 {
			return "", errors.New("--call, --data, --reply and --import-path need --proto: name the .proto file that defines the service")
		}
		return "", nil
	}
	if m.call == "" {
		return "", errors.New("--call is missing: name the method of --proto, as in --call shop.v1.Shop/PlaceOrder")
	}
	if workload != "echo" {
		return "", fmt.Errorf("--workload %s: --proto defines its own workload; give one of the two", workload)
	}
	source := message.Source{Proto: m.proto, ImportPaths: m.imports, Call: m.call}
	if err := readFiles(fileFlag{"--data", m.data, &source.Request}, fileFlag{"--reply", m.reply, &source.Response}); err != nil {
		return "", err
	}
	if part.Definition, err = message.Compile(context.Background(), source); err != nil {
		return "", fmt.Errorf("--proto: %w", err)
	}
	sizes, err := message.SizesOf(part.Definition)
	if err != nil {
		return "", err
	}
	part.Workload = "message:call=" + m.call
	part.Sizes = []scenario.Payload{{Request: scenario.Size(sizes.Request), Response: scenario.Size(sizes.Response)}}
	for _, v := range part.Stacks {
		if err := plan.CheckCallKinds(v, part.Workload); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf(" %s: %s.", m.call, sizes), nil
}

type linkFlag struct{ links []string }

func (l *linkFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&l.links, "link", nil, "emulate a `link`: a name (see wirelab list), keys and values as in delay=5ms,loss=1%, or both as in lte,up.rate=5Mbit/s; repeat --link to measure over several links in turn; the link none is loopback")
	setLazyCompletions(cmd, "link", plan.LinkCompletions)
}

// probeFlag holds the probes for each cell.
type probeFlag struct{ names []string }

func (p *probeFlag) register(cmd *cobra.Command, possible []scenario.Probe) {
	names := lists.Map(possible, func(p scenario.Probe) string { return string(p) })
	cmd.Flags().StringSliceVar(&p.names, "probe", nil,
		"run these `probes` in separate trials, to explain the results: "+strings.Join(names, ", ")+", or all (wirelab doctor shows the cost of each)")
	setCompletions(cmd, "probe", append(names, "all"))
}

// apply adds the probes to the scenario. It leaves out unsupported probes, with a warning for each.
func (p probeFlag) apply(s *scenario.Scenario, fleet fleetFlags, known scenario.Vocabulary) (_ *scenario.Scenario, warnings []string, err error) {
	if s, warnings, err = plan.AddProbes(s, p.names, fleet.FleetWanted); err != nil {
		return nil, nil, fmt.Errorf("--probe: %w", err)
	}
	return s, warnings, s.Check(known)
}

type untilFlags struct {
	goal   plan.UntilTarget
	most   plan.RepeatLimit
	budget time.Duration
	tries  bool // levers are tried after the comparison, and have their share of the budget
}

// defaultBudget is the time of a comparison whose number of repeats is not given.
const defaultBudget = 2 * time.Minute

// registerBudget adds --budget, for a command that repeats until every comparison is decided.
func (u *untilFlags) registerBudget(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&u.budget, "budget", defaultBudget, "`time` of the comparison, with --try also of probes and levers. Each point is measured 3 times; then the undecided points are repeated until all are decided or the time is over. --repeat measures a fixed number of times instead")
}

func (u *untilFlags) register(cmd *cobra.Command) {
	u.most = plan.RepeatLimit{Repeats: plan.DefaultMaxRepeats}
	f := cmd.Flags()
	f.Var(&u.goal, "until", "repeat until every comparison of the mean has a clear `verdict`; with 3%, until the interval of each mean is within 3 %")
	f.Var(&u.most, "at-most", "end --until without an answer after a number of `repeats`, after a time, or at the earlier of both, as in 30,20m")
	setCompletions(cmd, "until", []string{plan.VerdictTarget, "3%", "5%", "10%"})
	setCompletions(cmd, "at-most", []string{"30", "100", "20m", "30,20m"})
}

// read returns the condition that ends the repeats. It returns nil if their number is fixed.
func (u *untilFlags) read(cmd *cobra.Command, s *scenario.Scenario) (*record.Until, error) {
	given := cmd.Flags().Changed
	hasBudget := cmd.Flags().Lookup("budget") != nil
	budget := u.budget
	if u.tries {
		budget = levers.BudgetOfComparison(budget)
	}
	comparesVariants := slices.ContainsFunc(s.Parts, func(p scenario.Part) bool { return len(p.Stacks) > 1 })
	switch {
	case given("budget") && u.budget < time.Second:
		return nil, fmt.Errorf("--budget: want 1s or more, found %v", u.budget)
	case given("budget") && given("repeat") && !u.tries:
		return nil, errors.New("--budget repeats until its time is over, and --repeat fixes the number of repeats: leave out one of the two")
	case given("budget") && given("at-most"):
		return nil, errors.New("--budget and --at-most both limit the run: leave out one of the two")
	case given("budget") && !given("until") && !comparesVariants && !u.tries:
		return nil, errors.New("--budget repeats until a comparison is decided, but there is one variant: name another one (compare: --stack, load: --against), or use --repeat")
	case given("until") && (given("budget") || u.tries && !given("at-most")):
		return plan.NewUntil(s, u.goal, plan.RepeatLimit{Repeats: plan.MaxBudgetRepeats, Time: budget})
	case given("until"):
		return plan.NewUntil(s, u.goal, u.most)
	case given("at-most"):
		return nil, errors.New("--at-most limits the repeats of --until: add --until, as in --until verdict")
	case hasBudget && comparesVariants && !given("repeat"):
		return plan.NewUntil(s, 0, plan.RepeatLimit{Repeats: plan.MaxBudgetRepeats, Time: budget})
	}
	return nil, nil
}

// tryFlags says which levers are tried.
type tryFlags struct {
	on     bool
	named  []string
	figure string
	budget time.Duration
	began  time.Time // when the comparison began whose time the budget includes; zero without one
}

func (t *tryFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&t.on, "try", false, "try levers on the slower cell, by slices, and say which one moves it (docs/levers.md)")
	f.StringSliceVar(&t.named, "levers", nil, "try these `options` of the cell's variant, as in gogc=400, in place of the catalogue's; implies --try")
	f.StringVar(&t.figure, "of", "mean", "the `figure` that a lever shall move: mean, p99, or cpu (CPU time per call)")
	setCompletions(cmd, "levers", lists.Map(levers.Catalogue, levers.Lever.Name))
	setCompletions(cmd, "of", levers.Figures)
}

// check checks the flags before anything is measured.
func (t *tryFlags) check() error {
	if t.budget != 0 && t.budget < time.Second {
		return fmt.Errorf("--budget: want 1s or more, found %v", t.budget)
	}
	return (&levers.Question{Named: t.named, Figure: t.figure}).Check()
}

// wanted reports whether levers are to be tried.
func (t *tryFlags) wanted() bool { return t != nil && (t.on || len(t.named) > 0) }

// streamFlags holds the flags for streams that stay open, in which a call is one message.
type streamFlags struct {
	service.Holding
	hold, events bool
	messageRate  float64
}

// register adds the flags.
func (s *streamFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&s.hold, "streams", false, "gRPC: each client holds a stream open, and a call is one message on it; always so with ws:// and --sse")
	f.BoolVar(&s.events, "sse", false, "the answer is a stream of server-sent events, which each client holds open (default: if the first answer is one); --sse=false loads whole answers")
	f.StringVar((*string)(&s.Exchange), "exchange", "", "a call on a held stream: `answer` (send a message and wait), receive (wait for the next message), or send (default: by the method; WebSocket: answer with -d, else receive)")
	f.Float64Var(&s.messageRate, "message-rate", 0, "messages per second on `each` held stream, on a schedule of its own (--rps is for all streams together)")
	f.Float64Var(&s.OpenPerSecond, "open-rate", 0, "held streams opened per `second` before the load (default: as fast as possible)")
	f.IntVar(&s.InFlight, "inflight-per-stream", 1, "most `messages` in flight on each held stream")
	f.StringVar(&s.Match, "match", "", "`expression` by which the answer to a message is found, as in json(.id) (default: answers come in the order of the messages)")
	f.StringVar(&s.SentAt, "sent-at", "", "`expression` of the instant at which a received message was sent, as in json(.time); its latency is measured from then")
	f.StringVar(&s.Sequence, "sequence", "", "`expression` of a received message's number on its stream, as in json(.seq); missing, duplicate and reordered numbers are counted")
	setCompletions(cmd, "exchange", []string{"answer", "receive", "send"})
}

var streamFlagNames = []string{"exchange", "message-rate", "open-rate", "inflight-per-stream", "match", "sent-at", "sequence"}

// holding returns how streams are held, or nil if calls are whole exchanges.
func (l *loadFlags) holding(t service.Target) (*service.Holding, error) {
	s := &l.streams
	web := !t.Wire.IsGRPC() && t.Wire != service.WebSocket
	switch {
	case l.journey.script != nil && (s.hold || s.events):
		return nil, errors.New("--streams and --sse: steps of a file hold no streams: leave them out")
	case s.hold && web && !s.events:
		return nil, errors.New("--streams is for gRPC: add --sse for server-sent events, or write ws:// for a WebSocket")
	case s.events && !web:
		return nil, errors.New("--sse is for http:// and https://: leave it out")
	case (s.hold || s.events) && l.request.list != "":
		return nil, errors.New("--targets: held streams have one request: give it as TARGET")
	case !s.hold && !s.events && t.Wire != service.WebSocket:
		if i := slices.IndexFunc(streamFlagNames, l.given); i >= 0 {
			return nil, fmt.Errorf("--%s is for held streams: add --streams (gRPC) or --sse, or write ws:// for a WebSocket", streamFlagNames[i])
		}
		return nil, nil
	case s.messageRate < 0 || l.given("message-rate") && s.messageRate == 0:
		return nil, fmt.Errorf("--message-rate: found %v: want more than 0 messages per second", s.messageRate)
	case s.messageRate > 0 && l.shape.rate > 0:
		return nil, errors.New("--message-rate is for each stream, and --rps for all together: give one of them")
	case (s.messageRate > 0 || s.InFlight > 1) && len(l.steps) > 0:
		return nil, errors.New("--steps: leave it out with --message-rate or --inflight-per-stream, or measure each number of streams by itself")
	case s.InFlight > 1 && l.fleet.Hub+l.fleet.TokenFile != "":
		return nil, errors.New("--inflight-per-stream: with --fleet, the callers of a stream could be on different machines: leave out one of them")
	case l.grpc.Messages > 1 || l.grpc.Pace > 0:
		return nil, errors.New("--messages and --pace are for calls that end: pace held streams with --message-rate or --rps")
	case t.Wire == service.WebSocket && l.given("conn"):
		return nil, errors.New("--conn: each WebSocket has a connection of its own: leave out --conn")
	}
	h := s.Holding
	h.OwnSchedule, h.Binary = s.messageRate > 0, t.Wire == service.WebSocket && l.grpc.Binary
	return &h, nil
}

// finishHolding completes and checks the definition of held streams.
func (l *loadFlags) finishHolding(d *service.Definition) error {
	if err := held.Complete(d); err != nil {
		return usageError(err)
	}
	if d.Holding != nil && d.Holding.Exchange == service.Receive {
		if !l.given("timeout") {
			d.Timeout = 0 // a quiet stream is not late
		}
		if s := &l.shape; s.rate > 0 || s.burst > 0 || s.goal != "" || l.streams.messageRate > 0 {
			return usageError(errors.New("--rps, --message-rate, --burst and --goal: the server decides when it sends messages: leave them out, or add --exchange answer or --exchange send"))
		}
	}
	return nil
}
