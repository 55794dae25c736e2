package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestLoadFindsKnownTimes loads a service whose calls provably take at least a known time. A busy machine makes them only
// longer, so all bounds are lower ones, and all counts are exact. tools/loadtruth measures how close the figures are.
func TestLoadFindsKnownTimes(t *testing.T) {
	if testing.Short() {
		t.Skip("short: the loads take half a minute")
	}
	for _, known := range []struct {
		name, flags, work string // flags that begin with --streams load gRPC; {} is the target
		check             func(t *testing.T, c truthCell, own *truthService)
	}{
		{"closed loop", "-n 1000 -c 10", "varied", wantNoneFaster(1000)},
		{"closed loop, 2 runs", "-n 1000 -c 10 --repeat 2", "varied", wantNoneFaster(2000)},
		{"closed loop, streams, 2 runs", "--streams -n 1000 -c 10 --repeat 2", "varied", wantNoneFaster(2000)},
		{"open loop", "-n 1000 --rps 1000 -c 50", "varied", wantNoneFaster(1000)},
		{"stalls in an open loop", "-n 1000 --rps 1000 --arrivals constant -c 300", "stalling", wantStalls(1000)},
		{"stalls in an open loop with few clients, 2 runs", "-n 1000 --rps 1000 --arrivals constant -c 5 --repeat 2", "stalling", wantStalls(2000)},
		{"stalls in an open loop, streams, 2 runs", "--streams -n 1000 --rps 1000 --arrivals constant -c 300 --repeat 2", "stalling", wantStalls(2000)},
		{"closed loop, by slices", "-c 10 -z 300ms --repeat 1 --against {}", "fifths", wantSlowFifth},
		{"open loop, by slices", "--rps 1000 -c 50 -z 300ms --repeat 1 --against {}", "fifths", wantSlowFifth},
		{"dropped messages", "--streams --exchange receive -n 5000 -c 50 --sequence json(.value)", "dropping", wantDropped},
		{"one slow stream among 1,000", "--streams --message-rate 1 -n 3000 -c 1000", "slow", wantSlowStream},
	} {
		t.Run(known.name, func(t *testing.T) {
			own := &truthService{}
			server := httptest.NewUnstartedServer(own.site())
			server.Config.Protocols = new(http.Protocols)
			server.Config.Protocols.SetHTTP1(true)
			server.Config.Protocols.SetUnencryptedHTTP2(true)
			server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 2000}
			server.Start()
			defer server.Close()
			cells := measureTruth(t, server.Listener.Addr().String(), known.flags, known.work)
			calls := int64(len(cells)) // the first ones
			for _, c := range cells {
				calls += c.Requests + c.Survival.Outside
				if c.Errors != 0 {
					t.Errorf("%d of %d failed", c.Errors, c.Requests)
				}
				known.check(t, c, own)
			}
			if known.work != "dropping" && calls != int64(own.begun) {
				t.Errorf("%d calls with the first ones, but the service had %d", calls, own.begun)
			}
		})
	}
}

// A truthCell is what wirelab load printed, in microseconds.
type truthCell struct {
	Requests, Errors int64
	Response         truthTimes `json:"response_us"`
	Survival         struct{ Outside int64 }
	Streams          *struct {
		Sequence  struct{ Missing, Duplicate, Reordered int64 }
		PerStream struct {
			Fewest, Most, Slowest int64
			SlowestMeanUS         float64 `json:"slowest_mean_us"`
		} `json:"per_stream"`
	}
}

type truthTimes struct{ Mean, P50, P90, P99, Max float64 }

// measureTruth runs wirelab load, and returns its figures, which stand for an invalid measurement, too.
func measureTruth(t *testing.T, address, flags, work string) []truthCell {
	t.Helper()
	folder, target := t.TempDir(), "http://"+address+"/"+work
	arguments := []string{"load", "--json", "--no-save", "--warm-up", "0s"}
	if strings.HasPrefix(flags, "--streams") {
		target = "grpc://" + address + "/truth.v1.Truth/" + work
		arguments = append(arguments, "--proto", "truth.proto", "-d", `{"value": "{{.Client}}"}`)
	}
	arguments = append(append(arguments, strings.Fields(strings.ReplaceAll(flags, "{}", target))...), target)
	if err := os.WriteFile(filepath.Join(folder, "truth.proto"), []byte(truthProto), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("wirelab", arguments...) //nolint:gosec // this program, which testscript has put into the path
	command.Dir = folder
	output, err := command.Output()
	if exit, is := errors.AsType[*exec.ExitError](err); err != nil && (!is || exit.ExitCode() != exitInvalid) {
		t.Fatalf("%s: %v: %s", command, err, exit.Stderr)
	}
	var printed struct{ Cells []truthCell }
	if err := json.Unmarshal(output, &printed); err != nil || len(printed.Cells) == 0 {
		t.Fatalf("%s: %v: %s", command, err, output)
	}
	return printed.Cells
}

const truthProto = `syntax = "proto3";
package truth.v1;
service Truth {
  rpc varied(stream Message) returns (stream Message);
  rpc stalling(stream Message) returns (stream Message);
  rpc slow(stream Message) returns (stream Message);
  rpc dropping(Message) returns (stream Message);
}
message Message { string value = 1; }
`

const (
	truthStall    = 200 * time.Millisecond // once in 1,000 calls, from their 300th on
	truthSlowTime = 2 * time.Second        // of each message on the stream of one client
	truthSlow     = 500                    // the number of this client
	truthFifth    = 20 * time.Millisecond  // of each fifth call
)

// A truthService takes known times for its answers, and keeps them. The first call is not counted.
type truthService struct {
	mu           sync.Mutex
	begun        int
	took         []time.Duration
	stalledUntil time.Time
}

func (s *truthService) site() http.Handler {
	site := http.NewServeMux()
	site.HandleFunc("/{work}", func(_ http.ResponseWriter, r *http.Request) { s.do(r.PathValue("work"), "") })
	site.Handle("/truth.v1.Truth/", grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		var message wrapperspb.StringValue
		for {
			if err := stream.RecvMsg(&message); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if path.Base(method) == "dropping" {
				return sendAllButOne(stream)
			}
			s.do(path.Base(method), message.GetValue())
			if err := stream.SendMsg(&message); err != nil {
				return err
			}
		}
	})))
	return site
}

// sendAllButOne sends numbered messages until the client leaves, and leaves out the 20th.
func sendAllButOne(stream grpc.ServerStream) error {
	for n := 1; ; n++ {
		if n == 20 {
			continue
		}
		if err := stream.SendMsg(wrapperspb.String(fmt.Sprint(n))); err != nil {
			return err
		}
	}
}

// do takes the time of one call, and keeps it.
func (s *truthService) do(work, client string) {
	began := time.Now()
	s.mu.Lock()
	number := s.begun
	s.begun++
	if work == "stalling" && number%1000 == 300 {
		s.stalledUntil = began.Add(truthStall)
	}
	wait := time.Until(s.stalledUntil)
	s.mu.Unlock()
	switch {
	case number == 0:
		return
	case work == "varied":
		wait = time.Duration(number%8) * time.Millisecond
	case work == "fifths" && number%5 == 0:
		wait = truthFifth
	case work == "slow" && client == fmt.Sprint(truthSlow):
		wait = truthSlowTime
	}
	time.Sleep(wait)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, time.Since(began))
}

// wantNoneFaster wants n calls, and each figure, which may be a mean over the runs of 1,000 calls, to be at least the
// service's own in the fastest run.
func wantNoneFaster(n int64) func(*testing.T, truthCell, *truthService) {
	return func(t *testing.T, c truthCell, own *truthService) {
		t.Helper()
		wantCalls(t, c, own, n)
		fastest := truthTimes{math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1)}
		for run := range slices.Chunk(own.took, 1000) {
			sorted := slices.Sorted(slices.Values(run))
			us := func(rank int) float64 { return float64(sorted[rank-1]) / 1e3 }
			mean := 0.0
			for _, d := range run {
				mean += float64(d) / 1e3 / float64(len(run))
			}
			fastest = truthTimes{
				min(fastest.Mean, mean), min(fastest.P50, us(500)), min(fastest.P90, us(900)), min(fastest.P99, us(990)), min(fastest.Max, us(1000)),
			}
		}
		got := c.Response
		if got.Mean < fastest.Mean || got.P50 < fastest.P50 || got.P90 < fastest.P90 || got.P99 < fastest.P99 || got.Max < fastest.Max {
			t.Errorf("found %+v µs, but the service took %+v µs", got, fastest)
		}
	}
}

// wantStalls wants the stalls in the response times. When a stall begins, 300 calls of the schedule were due, and at most
// 299 have an answer. One more becomes due each millisecond, so in each 1,000 calls the eleventh
// slowest takes at least 190 ms.
func wantStalls(n int64) func(*testing.T, truthCell, *truthService) {
	return func(t *testing.T, c truthCell, own *truthService) {
		t.Helper()
		wantCalls(t, c, own, n)
		wantAtLeast(t, "P90", c.Response.P90, 100e3)
		wantAtLeast(t, "P99", c.Response.P99, 190e3)
		wantAtLeast(t, "max", c.Response.Max, 200e3)
		wantAtLeast(t, "mean", c.Response.Mean, 20e3)
	}
}

// wantSlowFifth wants the slow fifth of the calls in the figures of each version.
func wantSlowFifth(t *testing.T, c truthCell, _ *truthService) {
	t.Helper()
	if c.Requests < 100 {
		t.Errorf("only %d requests", c.Requests)
	}
	wantAtLeast(t, "P90", c.Response.P90, float64(truthFifth.Microseconds()))
	wantAtLeast(t, "mean", c.Response.Mean, float64(truthFifth.Microseconds())/10)
}

func wantDropped(t *testing.T, c truthCell, _ *truthService) {
	t.Helper()
	if got := c.Streams.Sequence; c.Requests != 5000 || got.Missing != 50 || got.Duplicate != 0 || got.Reordered != 0 {
		t.Errorf("%d messages, and %+v; want 5,000, and 50 missing", c.Requests, got)
	}
}

func wantSlowStream(t *testing.T, c truthCell, own *truthService) {
	t.Helper()
	wantCalls(t, c, own, 3000)
	per := c.Streams.PerStream
	if per.Slowest != truthSlow || per.Fewest != 3 || per.Most != 3 {
		t.Errorf("%+v; want the stream %d, and 3 messages on each", per, truthSlow)
	}
	wantAtLeast(t, "mean of the slow stream", per.SlowestMeanUS, float64(truthSlowTime.Microseconds()))
}

func wantCalls(t *testing.T, c truthCell, own *truthService, n int64) {
	t.Helper()
	if c.Requests != n || len(own.took) != int(n) || c.Survival.Outside != 0 {
		t.Errorf("%d calls and %d others, the service had %d; want %d", c.Requests, c.Survival.Outside, len(own.took), n)
	}
}

func wantAtLeast(t *testing.T, figure string, got, want float64) {
	t.Helper()
	if got < want {
		t.Errorf("%s is %.1f µs, but the service took %.1f µs", figure, got, want)
	}
}
