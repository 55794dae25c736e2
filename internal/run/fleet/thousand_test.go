package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/crowd"
	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/run/worker"
)

// playThousand is many agents in one process: TOKENFILE COUNT. Each has a connection of its own
// and all of an agent's code; only their workers are simulated. The first is the server's.
func playThousand(args []string) error {
	credentials, err := protocol.ReadTokenFile(args[0])
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	identities, err := os.MkdirTemp("", "identities") // the process is killed: the test removes it
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	for i := range count + 1 {
		name, role := fmt.Sprintf("c%d", i), "client"
		if i == 0 {
			name, role = "s", "server"
		}
		go func() { // ends with the process
			ended <- RunAgent(context.Background(), credentials, AgentOptions{
				Name: name, Labels: map[string]string{"role": role}, Programs: []Program{{Name: "wirelab", Command: []string{program, "worker"}}},
				Dial: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Listen: netip.MustParseAddr("127.0.0.1"),
				Spool: os.TempDir(), Identities: identities, Log: io.Discard, Version: "simulated", start: simulate,
			})
		}()
		time.Sleep(2 * time.Millisecond) // a thousand machines are not switched on at one instant
	}
	fmt.Println("all have begun")
	return <-ended
}

// simulated is a worker that makes no calls: it has as many, of such latencies, as one would.
type simulated struct {
	launch  worker.Launch
	random  *rand.Rand
	told    chan worker.ControlOrder
	stopped chan struct{}
	once    sync.Once
	done    chan struct{} // when result is there
	result  worker.Result
}

func simulate(l worker.Launch) (workerProcess, error) {
	s := &simulated{launch: l, told: make(chan worker.ControlOrder, 4), stopped: make(chan struct{}), done: make(chan struct{})}
	if l.Spec.Role == worker.ClientRole {
		first := uint64(0)
		if g := l.Spec.Client.Group; g != nil {
			first = uint64(g.First)
		}
		s.random = rand.New(rand.NewPCG(first, 1))
		go s.run()
	}
	return s, nil
}

func (s *simulated) Ready(context.Context) (worker.Ready, error) {
	return worker.Ready{Contract: worker.Contract, Address: strings.Replace(s.launch.Spec.Address, ":0", ":1", 1), Runtime: "simulated"}, nil
}

func (s *simulated) Result(ctx context.Context) (worker.Result, error) {
	if s.launch.Spec.Role == worker.ServerRole {
		<-s.stopped
		return worker.Result{Server: &worker.ServerResult{}}, nil
	}
	select {
	case <-s.done:
		return s.result, nil
	case <-s.stopped:
		return worker.Result{}, errors.New("it was stopped")
	}
}

func (s *simulated) SendControl(o worker.ControlOrder) error { s.told <- o; return nil }
func (s *simulated) Stop() error                             { s.Kill(); return nil }
func (s *simulated) Kill()                                   { s.once.Do(func() { close(s.stopped) }) }
func (s *simulated) Wait() error                             { <-s.stopped; return nil }
func (s *simulated) PID() int                                { return os.Getpid() }
func (s *simulated) CPU() time.Duration                      { return 0 }
func (s *simulated) Warnings() []string                      { return nil }

// callsPerSecond is the rate of each simulated client.
const callsPerSecond = 20_000

// run goes through a client's life, as docs/worker-contract.md describes it.
func (s *simulated) run() {
	alone, begin := s.launch.Spec.Client.Group == nil, clock.Now()
	if !alone {
		begin = s.await(worker.GoControl)
	}
	warming := time.After(300 * time.Millisecond)
	var opens int64
	window := s.launch.Spec.Client.Load.DurationNS
	service, next := latency.NewRecorder(), begin+int64(crowd.IntervalLength)
	defer service.Close()
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	settled, tells := false, s.launch.Spec.Client.IntervalNS > 0
	for opens == 0 || clock.Now() < opens+window {
		select {
		case <-s.stopped:
			return
		case <-warming:
			settled = true
			if alone {
				opens = clock.Now()
			}
		case o := <-s.told:
			if o.Control == worker.OpenControl {
				opens = o.AtNS
			}
		case <-ticker.C:
		}
		now := clock.Now()
		so := live.Progress{Warming: opens == 0 || now < opens, Settled: settled}
		if !so.Warming {
			so.Fraction = min(1, float64(now-opens)/float64(window))
		}
		s.launch.OnProgress(so)
		for ; next <= now; next += int64(crowd.IntervalLength) {
			if second := s.interval(next-int64(crowd.IntervalLength), service); tells {
				s.launch.OnInterval(second)
			}
		}
	}
	distribution := distributionOf(service)
	n := distribution.Count
	s.result.Client = &worker.ClientResult{
		BeginNS: opens, EndNS: opens + window,
		Measurement: record.Measurement{Requests: n, Completed: n, Service: distribution, InFlight: 1, Active: 1, WarmUp: record.WarmUp{Settled: true}},
	}
	close(s.done)
}

// distributions caches the distributions of results, by their counts. A thousand machines make one
// each. To make all of them here would keep this machine's CPUs busy for seconds, and no order would
// be heard.
var distributions struct {
	guard sync.Mutex
	of    map[int64]latency.Distribution
}

// distributionOf returns the distribution for the number of recorded calls.
func distributionOf(service *latency.Recorder) latency.Distribution {
	histogram := latency.NewHistogram(service)
	distributions.guard.Lock()
	defer distributions.guard.Unlock()
	known, is := distributions.of[histogram.Count()]
	if is {
		return known
	}
	made, err := histogram.Distribution()
	if err != nil {
		panic(err)
	}
	if distributions.of == nil {
		distributions.of = map[int64]latency.Distribution{}
	}
	distributions.of[made.Count] = made
	return made
}

// await waits for a control and returns its instant.
func (s *simulated) await(c worker.Control) int64 {
	for {
		select {
		case <-s.stopped:
			return clock.Now()
		case o := <-s.told:
			if o.Control == c {
				return o.AtNS
			}
		}
	}
}

// encoders are shared: a worker has one of its own, whose memory a thousand would not find here.
var encoders = sync.Pool{New: func() any { return new(latency.CoarseEncoder) }}

// interval makes the calls of a second, around 200 µs, and counts them.
func (s *simulated) interval(start int64, service *latency.Recorder) worker.Interval {
	const sampled = 500 // each for several, to simulate a thousand machines on one
	times := latency.NewCoarseHistogram()
	for range sampled {
		ns := int64(200_000 * math.Exp(0.5*s.random.NormFloat64()))
		times.Record(ns, callsPerSecond/sampled)
		service.Record(ns)
	}
	encoder := encoders.Get().(*latency.CoarseEncoder)
	defer encoders.Put(encoder)
	encoded, err := encoder.Encode(times)
	if err != nil {
		panic(err)
	}
	return worker.Interval{StartNS: start, TookNS: int64(crowd.IntervalLength), Ended: callsPerSecond, Histogram: encoded}
}
