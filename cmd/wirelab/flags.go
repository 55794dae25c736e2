package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/spf13/pflag"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/workload/message"
)

// shapeFlags say when requests are sent if it is not a closed loop.
type shapeFlags struct {
	rate, rampTo float64
	arrivals     string
	burst        int
	goal         string
	given        func(flag string) bool // on the command line
}

func (s *shapeFlags) register(f *pflag.FlagSet) {
	s.given = f.Changed
	f.Float64Var(&s.rate, "rps", 0, "open loop: total `requests` per second, sent on schedule whether answered or not")
	f.StringVar(&s.arrivals, "arrivals", "", "open loop: `spread` of the arrivals, poisson or constant (default poisson; constant in a ramp)")
	f.Float64Var(&s.rampTo, "ramp-to", 0, "open loop: change the rate evenly from --rps to these `requests` per second")
	f.IntVar(&s.burst, "burst", 0, "send this many `requests` at one instant, and show how long they take to drain")
	f.StringVar(&s.goal, "goal", "", "search for the highest rate that keeps a `goal` of the response time, as in p99<10ms")
}

// searchStep is the length of each step of a search without -z.
const searchStep = time.Second

// checkZeros refuses a zero that was written, because a zero also stands for a flag that was not
// given.
func (s *shapeFlags) checkZeros(requests int) error {
	if s.given == nil {
		return nil // ping has no such flags
	}
	for _, zero := range []struct {
		flag string
		is   bool
		says string
	}{
		{"rps", s.rate == 0, "--rps 0: no requests would be sent: give a rate, as in --rps 5000, or leave it out for a closed loop, in which each client sends its next request when the last is answered"},
		{"ramp-to", s.rampTo == 0, "--ramp-to 0: a ramp cannot end with no requests: give the rate that it ends with, as in --ramp-to 5000"},
		{"burst", s.burst == 0, "--burst 0: no requests would be sent: give how many are sent at one instant, as in --burst 1000"},
		{"goal", s.goal == "", "--goal: it is empty: want a percentile and its limit, as in p99<10ms"},
		{"requests", requests == 0, "-n 0: no requests would be measured: give how many each client measures, as in -n 100, or leave it out to measure for the time of -z"},
	} {
		if zero.is && s.given(zero.flag) {
			return errors.New(zero.says)
		}
	}
	return nil
}

// evenly returns the shape of a fixed number of requests at a rate: spread evenly unless
// --arrivals says otherwise, so that their number is that of -n. The shape then ignores -n.
func (s shapeFlags) evenly() shapeFlags {
	if s.arrivals == "" {
		s.arrivals = string(scenario.Constant)
	}
	if given := s.given; given != nil {
		s.given = func(flag string) bool { return flag != "requests" && given(flag) }
	}
	return s
}

// load returns the load that the flags describe, with -n and -z.
func (s *shapeFlags) load(requests int, duration time.Duration) (scenario.Load, error) {
	if err := s.checkZeros(requests); err != nil {
		return scenario.Load{}, err
	}
	given := 0
	for _, set := range []bool{s.rate != 0, s.burst != 0, s.goal != ""} {
		if set {
			given++
		}
	}
	switch {
	case given > 1:
		return scenario.Load{}, errors.New("--rps, --burst and --goal are different loads: give one of them")
	case requests < 0:
		return scenario.Load{}, fmt.Errorf("-n: %d requests: want 1 or more", requests)
	case !(s.rate >= 0 && s.rate <= math.MaxFloat64):
		return scenario.Load{}, fmt.Errorf("--rps: %v requests per second: want more than 0", s.rate)
	case !(s.rampTo >= 0 && s.rampTo <= math.MaxFloat64):
		return scenario.Load{}, fmt.Errorf("--ramp-to: %v requests per second: want more than 0", s.rampTo)
	case s.burst < 0:
		return scenario.Load{}, fmt.Errorf("--burst: %d requests: want 1 or more", s.burst)
	case given > 0 && requests > 0:
		return scenario.Load{}, errors.New("-n: it bounds a closed loop: with --rps and --goal give -z instead of -n, with --burst nothing")
	case s.rampTo != 0 && s.rate == 0:
		return scenario.Load{}, errors.New("--ramp-to: give --rps as well, the rate that the ramp begins with")
	case s.arrivals != "" && s.rate == 0:
		return scenario.Load{}, errors.New("--arrivals: only an open loop has arrivals; give --rps")
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
		if duration == usualDuration {
			load.Duration = scenario.Duration(searchStep)
		}
		load.Model, load.Goal = scenario.Search, goal
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
	load.SetDefaultArrivals()
	return load, nil
}

// trustFlags say which certificates of a --target to trust. Servers that wirelab
// starts have certificates that it made.
type trustFlags struct {
	insecure bool
	rootFile string
}

func (t *trustFlags) register(f *pflag.FlagSet) {
	f.BoolVarP(&t.insecure, "insecure", "k", false, "take any certificate of a --target over TLS")
	f.StringVar(&t.rootFile, "cacert", "", "trust the root certificates in this PEM `file` (default: the system's) for a --target over TLS")
}

// read turns the flags into the trust in the targets.
func (t *trustFlags) read(targets map[string]string) (secure.Trust, error) {
	switch {
	case *t == (trustFlags{}):
		return secure.Trust{}, nil
	case len(targets) == 0:
		return secure.Trust{}, errors.New("--insecure and --cacert are about a server of your own: name it with --target")
	case t.insecure && t.rootFile != "":
		return secure.Trust{}, errors.New("--insecure and --cacert: give one of them")
	case t.insecure:
		return secure.Trust{SkipVerify: true}, nil
	}
	roots, err := os.ReadFile(t.rootFile)
	if err != nil {
		return secure.Trust{}, fmt.Errorf("--cacert: %w", err)
	}
	return secure.Trust{RootPEM: roots}, nil
}

// messageFlags name a method and a message of the user's own.
type messageFlags struct {
	proto, call string
	imports     []string
	data, reply string
}

func (m *messageFlags) register(f *pflag.FlagSet) {
	f.StringVar(&m.proto, "proto", "", "compare with a message of your own: the .proto `file` that has the service")
	f.StringArrayVar(&m.imports, "import-path", nil, "`directory` that --proto and its imports are found in (default: the file's own)")
	f.StringVar(&m.call, "call", "", "unary `method` of --proto, as in shop.v1.Shop/PlaceOrder")
	f.StringVar(&m.data, "data", "", "`file` with the request as JSON")
	f.StringVar(&m.reply, "reply", "", "`file` with the response as JSON (default: the request where both have one type, otherwise an empty message)")
}

// define sets the part's workload to the user's message, and describes it in a
// sentence. Without --proto it does nothing.
func (m *messageFlags) define(part *scenario.Part, workload string) (described string, err error) {
	if m.proto == "" {
		if m.call != "" || m.data != "" || m.reply != "" || len(m.imports) > 0 {
			return "", errors.New("--call, --data, --reply and --import-path need --proto: name the .proto file that has the service")
		}
		return "", nil
	}
	if m.call == "" {
		return "", errors.New("--call is missing: name the method of --proto, as in --call shop.v1.Shop/PlaceOrder")
	}
	if workload != "echo" {
		return "", fmt.Errorf("--workload %s: --proto is a workload of its own; give one of the two", workload)
	}
	source := message.Source{Proto: m.proto, ImportPaths: m.imports, Call: m.call}
	for _, file := range []struct {
		flag, name string
		into       *[]byte
	}{{"--data", m.data, &source.Request}, {"--reply", m.reply, &source.Response}} {
		if file.name == "" {
			continue
		}
		if *file.into, err = os.ReadFile(file.name); err != nil {
			return "", fmt.Errorf("%s: %w", file.flag, err)
		}
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
		if err := plan.CheckCarries(v, part.Workload); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf(" %s: the request has %s, the response %s.", m.call,
		weight(sizes.Request, sizes.RequestJSON, sizes.RequestGzip), weight(sizes.Response, sizes.ResponseJSON, sizes.ResponseGzip)), nil
}

// weight describes a message's size in protobuf, in JSON, and compressed.
func weight(encoded, asJSON, compressed int) string {
	if encoded == 0 {
		return fmt.Sprintf("0 bytes (%d as JSON)", asJSON)
	}
	return fmt.Sprintf("%d bytes (%d as JSON, %.2f times; %d through gzip, %.2f times)",
		encoded, asJSON, float64(asJSON)/float64(encoded), compressed, float64(compressed)/float64(encoded))
}
