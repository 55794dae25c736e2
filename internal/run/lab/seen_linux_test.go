package lab

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe/probetest"
	"wirelab.dev/internal/run/worker"
)

const withoutPerfEvents = "WIRELAB_WITHOUT_PERF_EVENTS"

// TestWorkersProfileThemselves runs once more where the kernel refuses perf events: the
// stacks of CPU time are the Go runtime's then, of both ends.
func TestWorkersProfileThemselves(t *testing.T) {
	takesSeconds(t)
	if os.Getenv(withoutPerfEvents) == "" {
		var words strings.Builder
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWorkersProfileThemselves$")
		again.Env = append(os.Environ(), withoutPerfEvents+"=1")
		again.Stdout, again.Stderr = &words, &words
		if err := probetest.StartWithoutPerfEvents(again); err != nil {
			t.Fatal(err)
		}
		if err := again.Wait(); err != nil {
			t.Errorf("%v:\n%s", err, words.String())
		}
		return
	}
	s := oneCell(t, "grpc")
	p := &s.Parts[0]
	p.Probes = []scenario.Probe{record.ProbeCPU}
	p.Load = scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(time.Second)}
	for _, r := range runAll(t, newLab(t), s) {
		if r.Failure != "" {
			t.Fatal(r.Failure)
		}
		if r.Probe == "" {
			continue
		}
		for end, seen := range map[string]*record.Seen{"server": r.Server.Seen, "client": r.Client.Seen} {
			if seen == nil || seen.Stacks == nil || !strings.Contains(seen.Method, "pprof") || len(seen.Missing) == 0 {
				t.Errorf("the %s was seen as %+v", end, seen)
				continue
			}
			weight := int64(0)
			for _, stack := range seen.Stacks.Stacks {
				weight += stack.Weight
			}
			// At 100 a second of CPU time, and a second of calls.
			if seen.Stacks.Samples < 10 || weight != seen.Stacks.Samples*10_000_000 {
				t.Errorf("the %s has %d samples of %d ns", end, seen.Stacks.Samples, weight)
			}
		}
	}
}

// TestWhatIsNotSeenOfAServiceIsSaid: a probe goes on with the client alone where the service's processes are out
// of reach, and the findings say why.
func TestWhatIsNotSeenOfAServiceIsSaid(t *testing.T) {
	front := stageService(t)
	for _, one := range []struct {
		address string
		found   []int // processes of the service
		want    string
	}{
		{"192.0.2.1:80", nil, "the service: 192.0.2.1:80 is on another machine; run wirelab there"},
		{"127.0.0.1:1", nil, "the service: the processes that listen on 127.0.0.1:1 were not found"},
		{front.address, []int{front.pid}, ""},
	} {
		watch, err := worker.StartObserver(record.ProbeSyscalls)
		if err != nil {
			t.Skip(err)
		}
		watched := &trial{observer: watch}
		watched.planned.Cell.Variant.Stack = record.ServiceStack
		serving := &server{address: one.address}
		if one.found != nil {
			serving.service = newServiceFamily(host.ReadProcessTable(), one.found)
		}
		begin := clock.Now()
		watched.watchService(serving)
		r := &record.Record{}
		watched.recordFindings(r, serving, worker.ServerResult{}, &worker.ClientResult{BeginNS: begin, EndNS: clock.Now()})
		missing := r.Server.Seen.Missing
		if one.want == "" && slices.ContainsFunc(missing, func(text string) bool { return strings.HasPrefix(text, "the service") }) ||
			one.want != "" && !slices.ContainsFunc(missing, func(text string) bool { return strings.HasPrefix(text, one.want) }) {
			t.Errorf("of %s is missing %q, want %q", one.address, missing, one.want)
		}
	}
}

// TestATargetOfThisMachineIsSeen: wirelab finds the process behind the port of a server that it did not start.
func TestATargetOfThisMachineIsSeen(t *testing.T) {
	takesSeconds(t)
	l := newLab(t)
	process, err := worker.Start(worker.Launch{Name: "server", Command: l.Worker, Spec: worker.Spec{
		Contract: worker.Contract, Role: worker.ServerRole, Stack: "tcp", Address: "127.0.0.1:0",
		Workload: worker.Workload{Name: "echo", RequestBytes: 64, ResponseBytes: 64},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	ready, err := process.Ready(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.Targets = map[string]string{"tcp": ready.Address}
	s := oneCell(t, "tcp")
	s.Parts[0].Probes = []scenario.Probe{record.ProbeSyscalls}
	for _, r := range runAll(t, l, s) {
		if r.Failure != "" {
			t.Fatal(r.Failure)
		}
		if _, known := r.Server.CPUNS(); !known || r.ServerMayBeOther() || strings.Contains(strings.Join(r.Warnings, ""), "the cost of this server is unknown") {
			t.Errorf("the server's cost is unknown: warnings %q", r.Warnings)
		}
		if r.Probe == "" {
			continue
		}
		if seen := r.Server.Seen; seen == nil || len(seen.Syscalls) == 0 {
			t.Errorf("nothing was seen of the server: %+v", seen)
		}
	}
}
