package lab

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
)

// These tests put a known truth into a server or a client and want it back out
// of the record, through real processes.

// disturbances holds what the judge said about the machine, in the trials since the list was
// last emptied. Tests that measure do not run in parallel.
var disturbances []string

// noteDisturbances keeps what the judge says of others on the machine.
func noteDisturbances(records []record.Record) {
	for _, r := range records {
		for _, c := range r.Checks {
			byMachine := []string{"neighbours", "gaps"}
			if slices.Contains(byMachine, c.Name) && c.Level != record.OK && c.Level != record.Unknown {
				disturbances = append(disturbances, c.Detail)
			}
		}
	}
}

// despiteNoise measures until the truth comes out, at most three times: a fault of
// the instrument is there every time. Where the judge said of these trials that
// others disturbed them, they tell nothing either way, and the test says so.
func despiteNoise(t *testing.T, measure func() error) {
	t.Helper()
	disturbances = nil
	var err error
	for range 3 {
		if err = measure(); err == nil {
			return
		}
		t.Log(err)
	}
	if len(disturbances) > 0 {
		t.Skipf("the machine is too busy to tell: the judge refuses the trials, since %s", strings.Join(disturbances, "; "))
	}
	t.Error("three times:", err)
}

func near(what string, got, want time.Duration, tolerance float64) error {
	if math.Abs(float64(got-want)) > tolerance*float64(want) {
		return fmt.Errorf("%s is %v, want %v within %v %%", what, got, want, 100*tolerance)
	}
	return nil
}

func atMost(what string, got, limit time.Duration) error {
	if got > limit {
		return fmt.Errorf("%s is %v, want at most %v", what, got, limit)
	}
	return nil
}

func TestADelayComesOut(t *testing.T) {
	if testing.Short() {
		t.Skip("short: this one measures to 2 %, and must not measure the race detector or other tests beside it")
	}
	const delay = 5 * time.Millisecond
	loops := map[string]*scenario.Scenario{
		"closed": oneCell(t, "fake:delay=5ms"),
		"open":   openCell(t, "fake:delay=5ms", 8, 200, time.Second),
	}
	for name, s := range loops {
		despiteNoise(t, func() error {
			r := runOne(t, newLab(t), s)
			service := histogram(t, r.Service)
			if service.Min() < delay {
				t.Errorf("%s: a call of %v took %v", name, delay, service.Min())
			}
			return errors.Join(
				near(name+": the mean", service.Mean(), delay, 0.02),
				near(name+": P50", service.Quantile(0.5), delay, 0.02),
			)
		})
	}
}

// Closed-loop clients would wait a stall out and hardly see it. Arrivals on a
// schedule meet it evenly: a tenth of them, with a thousandth of all waiting
// for more than 99 ms. Two of 5,000 calls per second meet it in service.
func TestAStallShowsInResponseTimeOnly(t *testing.T) {
	takesSeconds(t)
	despiteNoise(t, func() error {
		r := runOne(t, newLab(t), openCell(t, "fake:stall=100ms", 2, 5000, 3*time.Second))
		service, response := histogram(t, r.Service), histogram(t, *r.Response)
		return errors.Join(
			near("response P99.9", response.Quantile(0.999), 99*time.Millisecond, 0.03),
			near("response P95", response.Quantile(0.95), 50*time.Millisecond, 0.1),
			atMost("service P99.9", service.Quantile(0.999), 30*time.Millisecond),
			atMost("the generator's own lateness, P50", histogram(t, r.Pacing.Late).Quantile(0.5), 5*time.Microsecond),
		)
	})
}

func TestFaultsAreCounted(t *testing.T) {
	takesSeconds(t)
	for variant, want := range map[string]struct {
		code  string
		count int64
		level record.Level
	}{
		"fake:fail-every=50":    {"Unavailable", 8, record.Invalid},
		"fake:fail-every=200":   {"Unavailable", 2, record.Warning},
		"fake:corrupt-every=50": {"WrongAnswer", 8, record.Invalid},
	} {
		s := oneCell(t, variant)
		s.Parts[0].WarmUp = scenario.WarmUp{}
		r := runOne(t, newLab(t), s)
		if len(r.Errors) != 1 || r.Errors[0].Code != want.code || r.Errors[0].Count != want.count {
			t.Errorf("%s: errors %+v, want %d × %s", variant, r.Errors, want.count, want.code)
		}
		if r.Requests != 400 {
			t.Errorf("%s: %d requests, want 400", variant, r.Requests)
		}
		wantCheck(t, r, "errors", want.level)
	}
}

// A stack that costs nothing leaves the generator's own time.
func TestAGeneratorBoundTrialIsInvalid(t *testing.T) {
	takesSeconds(t)
	s := oneCell(t, "fake")
	s.Parts[0].Load.Requests = 50_000
	despiteNoise(t, func() error { // who is off the CPU in a call spends less of the time outside
		r := runOne(t, newLab(t), s)
		if share := float64(r.Engine.BetweenNS) / (r.Active * float64(r.WindowNS)); share < 0.01 || share > 1 {
			t.Errorf("%v of the clients' time was outside of calls that take none", share)
		}
		if r.Engine.OwnNS <= 0 {
			t.Errorf("the engine says that a request costs it %v ns", r.Engine.OwnNS)
		}
		return isCheck(r, "generator-bound", record.Invalid)
	})
}

// Two clients with 5 ms a request make 400 a second at most.
func TestARateBeyondCapacityIsInvalid(t *testing.T) {
	takesSeconds(t)
	for name, drain := range map[string]time.Duration{"drained": time.Minute, "cut short": 200 * time.Millisecond} {
		l := newLab(t)
		l.drain = drain
		r := runOne(t, l, openCell(t, "fake:delay=5ms", 2, 1000, 500*time.Millisecond))
		wantCheck(t, r, "overload", record.Invalid)
		if r.Pacing.Scheduled != 500 || (r.Pacing.Unsent > 0) != (name == "cut short") {
			t.Errorf("%s: %d scheduled, %d unsent", name, r.Pacing.Scheduled, r.Pacing.Unsent)
		}
	}
}

// Eight clients through two permits wait three turns of four.
func TestTheWaitForAPermitIsToldApart(t *testing.T) {
	takesSeconds(t)
	s := oneCell(t, "fake:delay=5ms,inflight=2")
	s.Parts[0].Clients = []int{8}
	despiteNoise(t, func() error {
		r := runOne(t, newLab(t), s)
		if r.InFlight > 2.01 {
			t.Errorf("%v calls in flight through two permits", r.InFlight)
		}
		if math.Abs(r.InFlight-2) > 0.05 {
			return fmt.Errorf("%v calls in flight, want 2", r.InFlight)
		}
		return errors.Join(
			near("service", histogram(t, r.Service).Mean(), 5*time.Millisecond, 0.05),
			near("the wait", histogram(t, *r.Wait).Mean(), 15*time.Millisecond, 0.05),
			near("response", histogram(t, *r.Response).Mean(), 20*time.Millisecond, 0.05),
		)
	})
}

// Clients that wait for their instants must not keep answers from being read.
// Where each of twenty spun for itself, P50 over tcp was 20 times the truth.
func TestPacingDoesNotDelayAnswers(t *testing.T) {
	takesSeconds(t)
	closed := oneCell(t, "tcp")
	closed.Parts[0].Clients = []int{1}
	closed.Parts[0].Load.Requests = 2000
	despiteNoise(t, func() error {
		alone := histogram(t, runOne(t, newLab(t), closed).Service).Quantile(0.5)
		r := runOne(t, newLab(t), openCell(t, "tcp", 20, 3000, 700*time.Millisecond))
		if cpus := len(r.Client.CPUs); r.Client.GoMaxProcs != cpus+1 {
			t.Errorf("an open loop on %d CPUs has GOMAXPROCS %d, want one more", cpus, r.Client.GoMaxProcs)
		}
		return atMost("service P50 of an open loop", histogram(t, r.Service).Quantile(0.5), 5*alone)
	})
}

func TestSamplesAreWhatWasMeasured(t *testing.T) {
	takesSeconds(t)
	s := oneCell(t, "tcp")
	s.Parts[0].Samples = true
	run := create(t, s)
	if err := newLab(t).Run(t.Context(), s.Plan(), run); err != nil {
		t.Fatal(err)
	}
	r := recordsOf(t, run)[0]
	var services []int64
	rows, err := parquet.ReadFile[struct {
		Start    int64 `parquet:"start_ns"`
		Wait     int64 `parquet:"wait_ns"`
		Service  int64 `parquet:"service_ns"`
		Response int64 `parquet:"response_ns"`
	}](filepath.Join(run.Dir, r.SamplesFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		services = append(services, row.Service)
		if row.Start < 0 || row.Start >= r.WindowNS || row.Response != row.Wait+row.Service {
			t.Errorf("sample %+v of a window of %d ns", row, r.WindowNS)
		}
	}
	if int64(len(services)) != r.Requests {
		t.Fatalf("%d samples of %d requests", len(services), r.Requests)
	}
	slices.Sort(services)
	h := histogram(t, r.Service)
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
		at := services[int(math.Ceil(q*float64(len(services))))-1]
		if err := near(fmt.Sprintf("quantile %v of the samples", q), time.Duration(at), h.Quantile(q), 0.001); err != nil {
			t.Error(err)
		}
	}
}

// A against A, in as many processes: no difference that matters.
func TestAAgainstA(t *testing.T) {
	takesSeconds(t)
	s := oneCell(t, "fake:delay=1ms")
	s.Parts[0].Repeats = 3
	again := s.Parts[0]
	again.Name = "again"
	s.Parts = append(s.Parts, again)
	despiteNoise(t, func() error {
		medians := map[string][]time.Duration{}
		for _, r := range runAll(t, newLab(t), s) {
			medians[r.Cell.Part] = append(medians[r.Cell.Part], histogram(t, r.Service).Quantile(0.5))
		}
		for _, m := range medians {
			slices.Sort(m)
		}
		return near("the middle P50 of the second", medians["again"][1], medians["part"][1], 0.03)
	})
}

// The truth that is put in: 200 ports, held for a minute, and 1,000 connections.
// A naive client must run out of them, and be told so; a sized one must not.
func TestANaiveClientRunsOutOfPortsAndASizedOneDoesNot(t *testing.T) {
	takesSeconds(t)
	s := oneCell(t, "tcp:client=naive,tcp")
	part := &s.Parts[0]
	part.Network = scenario.Network{Ports: 200}
	part.Connection = scenario.Connection{Mode: scenario.New}
	part.Load, part.WarmUp = scenario.Load{Model: scenario.Closed, Total: 1001}, scenario.WarmUp{}
	for _, r := range runAll(t, newLab(t), s) {
		if strings.Contains(r.Failure, host.ErrUnsupported.Error()) {
			t.Skip(r.Failure)
		}
		if r.Requests != 1001 {
			t.Errorf("%s: %d requests, want 1001; %s", r.Cell.Variant, r.Requests, r.Failure)
		}
		switch failed := r.Failed(); r.Cell.Variant {
		case "tcp":
			if failed != 0 || r.Connections.During < 990 {
				t.Errorf("sized: %d failed and %d connections were opened: %+v", failed, r.Connections.During, r.Errors)
			}
			wantCheck(t, &r, "limits", record.OK)
			wantCheck(t, &r, "connections", record.OK)
		default:
			// The server's own port is one of the range.
			if opened := r.Requests - failed; opened < 190 || opened > 200 {
				t.Errorf("naive: %d of 1,001 were answered over 200 ports: %+v", opened, r.Errors)
			}
			wantCheck(t, &r, "limits", record.Warning)
			wantCheck(t, &r, "errors", record.Warning)
		}
	}
}

// The truth that is put in: 5 ms each way. A request on a connection of its own
// over TCP and TLS 1.3 takes three round trips: TCP's, the handshake's, its own.
func TestALinksDelayComesOut(t *testing.T) {
	takesSeconds(t)
	const trip = 10 * time.Millisecond
	s := oneCell(t, "tcp:conn=per-worker,tls=on,tcp:conn=new,tls=on")
	part := &s.Parts[0]
	part.Network = scenario.Network{Path: scenario.Path{Delay: scenario.Duration(trip / 2)}}
	part.Clients = []int{1}
	part.Load = scenario.Load{Model: scenario.Closed, Requests: 30}
	despiteNoise(t, func() error {
		var wrong []error
		for _, r := range runAll(t, newLab(t), s) {
			if strings.Contains(r.Failure, host.ErrUnsupported.Error()) {
				t.Skip(r.Failure)
			}
			if r.Failure != "" || r.Failed() > 0 || r.Link == nil {
				return fmt.Errorf("%s: %s, %+v", r.Cell.Variant, r.Failure, r.Errors)
			}
			want := trip
			if strings.Contains(r.Cell.Variant, "new") {
				want = 3 * trip
			}
			wrong = append(wrong, near(r.Cell.Variant+": P50", histogram(t, r.Service).Quantile(0.5), want, 0.15))
		}
		return errors.Join(wrong...)
	})
}
