package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/foreign"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/run/worker/body"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
)

// TestMain makes the test's program a worker too: the lab starts real
// processes.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	var err error
	switch os.Args[1] {
	case "worker":
		err = body.Main(context.Background(), os.Stdin, os.Stdout)
	case "mortal-worker":
		err = mortalWorker(worker.Role(os.Args[2]), os.Args[3], os.Args[4])
	case "staged-service":
		err = serveStaged(os.Stdin, os.Stdout)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// mortalWorker is a worker that dies, in that role and of that variant, as soon
// as there is a file of the given name.
func mortalWorker(role worker.Role, variant, file string) error {
	input := bufio.NewReader(os.Stdin)
	line, err := input.ReadBytes('\n')
	if err != nil {
		return err
	}
	spec, err := worker.ParseSpec(line)
	if err != nil {
		return err
	}
	if spec.Role == role && spec.Stack == variant {
		go func() { // ends the process
			for {
				if _, err := os.Stat(file); err == nil {
					fmt.Fprintln(os.Stderr, "the cellar is flooded")
					os.Exit(7)
				}
				time.Sleep(5 * time.Millisecond)
			}
		}()
	}
	return body.Main(context.Background(), io.MultiReader(bytes.NewReader(line), input), os.Stdout)
}

// takesSeconds leaves a test that runs real processes out of the fast check.
func takesSeconds(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("measures for seconds with real processes; TestADelayComesOut stands for it with -short")
	}
}

func newLab(t testing.TB) *Lab {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return New([]string{program, "worker"})
}

// oneCell returns a scenario of one part: four clients that make 100 requests each.
func oneCell(t testing.TB, stacks string) *scenario.Scenario {
	t.Helper()
	variants, err := scenario.ParseVariants(stacks)
	if err != nil {
		t.Fatal(err)
	}
	return &scenario.Scenario{
		Version: scenario.Version, Name: "test", Seed: 1,
		Parts: []scenario.Part{{
			Name: "part", Stacks: variants, Workload: "echo", Sizes: []scenario.Payload{{Request: 64, Response: 64}}, Clients: []int{4}, Repeats: 1,
			Load:   scenario.Load{Model: scenario.Closed, Requests: 100},
			WarmUp: scenario.WarmUp{AtMost: scenario.Duration(200 * time.Millisecond)},
		}},
	}
}

// openCell returns oneCell under an open loop of the given number of clients.
func openCell(t *testing.T, stacks string, clients int, rate float64, window time.Duration) *scenario.Scenario {
	t.Helper()
	s := oneCell(t, stacks)
	s.Parts[0].Clients = []int{clients}
	s.Parts[0].Load = scenario.Load{Model: scenario.Open, Rate: rate, Arrivals: scenario.Constant, Duration: scenario.Duration(window)}
	return s
}

// create makes a run for the scenario in a directory of its own.
func create(t testing.TB, s *scenario.Scenario) *record.Run {
	t.Helper()
	plan := s.Plan()
	run, err := record.Create(filepath.Join(t.TempDir(), "run"), record.Manifest{
		Version: record.Version, Name: s.Name, Status: record.Running, Seed: s.Seed, Started: time.Now(),
		Trials: len(plan), Order: ManifestOrder(plan), Scenario: json.RawMessage(`{}`), Host: json.RawMessage(`{}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func recordsOf(t testing.TB, run *record.Run) []record.Record {
	t.Helper()
	var records []record.Record
	for r, err := range run.Records() {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

// runAll carries the scenario out and returns the records.
func runAll(t testing.TB, l *Lab, s *scenario.Scenario) []record.Record {
	t.Helper()
	run := create(t, s)
	if err := l.Run(t.Context(), s.Plan(), run); err != nil {
		t.Fatal(err)
	}
	records := recordsOf(t, run)
	noteDisturbances(records)
	return records
}

// runOne carries out a scenario of one trial, which must measure something.
func runOne(t testing.TB, l *Lab, s *scenario.Scenario) *record.Record {
	t.Helper()
	r := runAll(t, l, s)[0]
	if r.Failure != "" {
		t.Fatal(r.Failure)
	}
	return &r
}

func histogram(t *testing.T, d latency.Distribution) *latency.Histogram {
	t.Helper()
	h, err := d.Decode()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func wantCheck(t *testing.T, r *record.Record, name string, want record.Level) {
	t.Helper()
	if err := isCheck(r, name, want); err != nil {
		t.Error(err)
	}
}

func isCheck(r *record.Record, name string, want record.Level) error {
	for _, c := range r.Checks {
		if c.Name != name {
			continue
		}
		if c.Level != want {
			return fmt.Errorf("%s: %s is %s, want %s: %s", r.Cell.Variant, name, c.Level, want, c.Detail)
		}
		return nil
	}
	return fmt.Errorf("no check %s", name)
}

// A trial records what both ends set, and what their connections agreed on.
func TestATrialTellsItsSettingsAndWhatItNegotiated(t *testing.T) {
	takesSeconds(t)
	for _, r := range runAll(t, newLab(t), oneCell(t, "h3,h2")) {
		if r.Failure != "" || r.Negotiated == nil {
			t.Fatalf("%s: %s, negotiated %+v", r.Cell.Variant, r.Failure, r.Negotiated)
		}
		sides := map[string]int{}
		for _, s := range r.Settings {
			sides[s.Side]++
		}
		if sides["both"] == 0 || sides["server"] == 0 || sides["client"] == 0 {
			t.Errorf("%s: settings of %v", r.Cell.Variant, sides)
		}
		n := *r.Negotiated
		switch r.Cell.Stack {
		case "h3":
			if n.Protocol != "h3" || len(n.Sessions) != 1 || n.Sessions[0].Group != "X25519MLKEM768" || n.Sessions[0].Cipher == "" || n.Sessions[0].ALPN != "h3" {
				t.Errorf("h3 negotiated %+v", n)
			}
		case "h2":
			if n.Protocol != "h2" || len(n.Sessions) != 0 {
				t.Errorf("cleartext h2 negotiated %+v", n)
			}
		}
		s, err := analysis.Summarize(&record.Manifest{}, analysis.JudgedTrials{Records: []*record.Record{&r}}, insight.BuiltInCategories())
		if err != nil {
			t.Fatal(err)
		}
		if secure := s.Cells[0].Connections.Secure; secure != (r.Cell.Stack == "h3") {
			t.Errorf("%s: secure is %v", r.Cell.Variant, secure)
		}
	}
}

// The truth that is put in: reno, on every wire. What must come out: that it is what the
// sockets of both ends have.
func TestEveryWireHasTheCongestionControlThatWasAsked(t *testing.T) {
	takesSeconds(t)
	var variants []string
	for _, s := range catalog.Stacks() {
		_, carried := s.(stack.PeerCarried)
		switch name := s.Info().Name; {
		case carried: // its peer's tests check it
		case name == "fake", name == "file": // no wire, and no echo
		case s.Info().QUIC:
			variants = append(variants, name)
		default:
			variants = append(variants, name+":cc=reno")
		}
	}
	for _, r := range runAll(t, newLab(t), oneCell(t, strings.Join(variants, ","))) {
		if r.Failure != "" || r.Negotiated == nil {
			t.Errorf("%s: %s, negotiated %+v", r.Cell.Variant, r.Failure, r.Negotiated)
		} else if n := r.Negotiated; n.ClientCongestion != "reno" || n.ServerCongestion != "reno" {
			t.Errorf("%s: congestion control %q at the client, %q at the server, want reno", r.Cell.Variant, n.ClientCongestion, n.ServerCongestion)
		}
	}
}

// The option cpus decides on which CPUs each end may run, as both ends report them.
func TestTheOptionCPUsPlacesBothEnds(t *testing.T) {
	takesSeconds(t)
	l := newLab(t)
	if len(l.Placement.Server) == 0 || slices.Equal(l.Placement.Server, l.Placement.Client) {
		t.Skipf("this machine has no CPUs to choose from: %+v", l.Placement)
	}
	all := l.Placement.Shared()
	want := map[string]host.Placement{"tcp": l.Placement, "tcp:cpus=shared": all, "tcp:cpus=one": l.Placement.OneEach()}
	for _, r := range runAll(t, l, oneCell(t, "tcp,tcp:cpus=shared,tcp:cpus=one")) {
		at := want[r.Cell.Variant]
		if !slices.Equal(r.Client.AllowedCPUs, at.Client) || !slices.Equal(r.Server.AllowedCPUs, at.Server) || r.Cell.Unpinned != (r.Cell.Variant == "tcp:cpus=shared") {
			t.Errorf("%s: the client could run on CPUs %v, the server on %v, unpinned %v, want %+v", r.Cell.Variant, r.Client.AllowedCPUs, r.Server.AllowedCPUs, r.Cell.Unpinned, at)
		}
	}
}

// Programs of others call the server in wirelab's place, and the record says so.
func TestATrialWithAForeignClient(t *testing.T) {
	takesSeconds(t)
	for _, variant := range []string{
		"grpc:conn=pool:2,caller=h2load", "h2:conn=pool:2,caller=h2load", "h1:caller=h2load", "h1:caller=wrk", "h1:codec=json,caller=wrk", "grpc:conn=pool:2,caller=ghz",
	} {
		t.Run(variant, func(t *testing.T) {
			_, name, _ := strings.Cut(variant, "caller=")
			client, _ := foreign.Generators.Find(name)
			_, version, err := client.Find()
			if err != nil {
				t.Skip(err)
			}
			s := oneCell(t, variant)
			s.Parts[0].Load = scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(300 * time.Millisecond)}
			r := runOne(t, newLab(t), s)
			if r.ClientProgram != version || r.Client.Version != version {
				t.Errorf("the client was %q, running on %q; want %q", r.ClientProgram, r.Client.Version, version)
			}
			cpu, known := r.Client.CPUNS()
			if r.Requests < 4 || r.Completed != r.Requests || r.Failed() != 0 || !known || cpu == 0 || cpu > r.WindowNS*int64(len(r.Client.CPUs)+1) {
				t.Errorf("%d requests, %d completed, failed: %v, %d ns of CPU in %d ns", r.Requests, r.Completed, r.Errors, cpu, r.WindowNS)
			}
			if !r.Service.OnlyTotals() || r.Service.Count != r.Requests || r.Service.Min > r.Service.Sum/r.Service.Count || r.Negotiated != nil || r.Traffic != nil || r.Wire != nil {
				t.Errorf("service times %+v, negotiated %v, traffic %v, wire %v", r.Service, r.Negotiated, r.Traffic, r.Wire)
			}
			if server, known := r.Server.CPUNS(); !known || server == 0 {
				t.Error("the server's cost is not known")
			}
			wantCheck(t, r, "errors", record.OK)
			wantCheck(t, r, "connections", record.Unknown)
			summary, err := analysis.Summarize(&record.Manifest{}, analysis.JudgedTrials{Records: []*record.Record{r}}, insight.BuiltInCategories())
			if err != nil {
				t.Fatal(err)
			}
			c := summary.Cells[0]
			for name, figure := range map[string]float64{"P50": c.Service.P50.Value, "in flight": c.InFlight.Value, "opened": c.Opened.Value} {
				if c.HasFigures() && !math.IsNaN(figure) {
					t.Errorf("%s is %v, want it unknown", name, figure)
				}
			}
		})
	}
}

// wirelab's own engine makes the calls of a stack's client, and its figures are as complete.
func TestATrialWithPreparedRequests(t *testing.T) {
	takesSeconds(t)
	for _, r := range runAll(t, newLab(t), oneCell(t, "h1:caller=load,h2:caller=load,conn=pool:2,grpc:caller=load,fastgrpc:caller=load,h1:codec=json,caller=load")) {
		t.Run(r.Cell.Variant, func(t *testing.T) {
			if r.Failure != "" || r.Requests != 400 || r.Failed() != 0 || r.ClientProgram != "" || r.Service.OnlyTotals() {
				t.Fatalf("%s: %d requests, failed: %v, client %q", r.Failure, r.Requests, r.Errors, r.ClientProgram)
			}
			wantCheck(t, &r, "errors", record.OK)
			wantCheck(t, &r, "connections", record.OK)
			wantCheck(t, &r, "bookkeeping", record.OK)
		})
	}
}

func TestAForeignClientSaysWhatItCannotDo(t *testing.T) {
	takesSeconds(t)
	client := foreign.Generators[0]
	if _, _, err := client.Find(); err != nil {
		t.Skip(err)
	}
	counted, stream := oneCell(t, "grpc:caller="+client.Name), oneCell(t, "grpc:caller="+client.Name)
	stream.Parts[0].Workload, stream.Parts[0].Sizes = "store:op=get", []scenario.Payload{{}}
	stream.Parts[0].Load = scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(time.Second)}
	for says, s := range map[string]*scenario.Scenario{"only a closed loop with a duration": counted, "only for unary calls": stream} {
		if r := runAll(t, newLab(t), s)[0]; !strings.Contains(r.Failure, says) {
			t.Errorf("it says %q, want %q", r.Failure, says)
		}
	}
}

func TestATrialOverEachStack(t *testing.T) {
	takesSeconds(t)
	despiteNoise(t, func() error {
		var unlawful error
		for _, r := range runAll(t, newLab(t), oneCell(t, "tcp,rest,grpc")) {
			if r.Failure != "" {
				t.Errorf("%s: %s", r.Cell.Key(), r.Failure)
				continue
			}
			if r.Requests != 400 || r.Failed() != 0 {
				t.Errorf("%s: %d requests, %v failed; want 400 and none", r.Cell.Key(), r.Requests, r.Errors)
			}
			wantCheck(t, &r, "connections", record.OK)
			wantCheck(t, &r, "errors", record.OK)
			unlawful = errors.Join(unlawful, isCheck(&r, "bookkeeping", record.OK))
		}
		return unlawful
	})
}
