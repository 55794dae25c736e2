package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/crowd"
	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
)

func TestAssembly(t *testing.T) {
	var a messageAssembly
	for i, step := range []struct {
		part, data, whole, fails string
	}{
		{"1/1", "one", "one", ""},
		{"1/3", "a", "", ""},
		{"2/3", "b", "", ""},
		{"3/3", "c", "abc", ""},
		{"1/2", "left", "", ""},
		{"1/2", "x", "", ""},
		{"2/2", "y", "xy", ""},
		{"2/2", "y", "", "arrived directly after part 0"},
		{"1/3", "a", "", ""},
		{"3/3", "c", "", "arrived directly after part 1"},
		{"", "x", "", "want number/total"},
		{"3/2", "x", "", "want number/total"},
		{"-1/2", "x", "", "want number/total"},
	} {
		whole, done, err := a.addPart(step.part, []byte(step.data))
		switch {
		case step.fails != "" && (err == nil || !strings.Contains(err.Error(), step.fails)),
			step.fails == "" && err != nil,
			done != (step.whole != "") || string(whole) != step.whole:
			t.Errorf("step %d, part %s: %q, %v, %v", i, step.part, whole, done, err)
		}
	}
	endless := bytes.Repeat([]byte("x"), 1<<20)
	var err error
	for n := 1; n < 100 && err == nil; n++ {
		_, _, err = a.addPart(fmt.Sprintf("%d/1000000", n), endless)
	}
	if err == nil || len(a.have) > maxKeptMessageBytes {
		t.Errorf("%d bytes were put together: %v", len(a.have), err)
	}
}

// kept makes a message that must not be lost.
func kept(about, part string, data []byte) *nats.Msg {
	return &nats.Msg{Header: nats.Header{aboutHeader: {about}, partHeader: {part}}, Data: data}
}

// waiting is a controller that waits for one worker, w1 of the agent a.
func waiting() (*Controller, *remoteWorker) {
	h := &leasedAgent{Card: protocol.Card{Name: "a"}}
	r := &remoteWorker{on: h, name: "w1", spec: worker.Spec{Client: &worker.ClientSpec{Clients: 1}}, seen: seenMessages{}, ready: make(chan struct{}), result: make(chan struct{}), ended: make(chan struct{})}
	c := &Controller{run: "r", credentials: &protocol.Credentials{}, held: map[string]*leasedAgent{"a": h}, ends: map[string]*remoteWorker{"a/w1": r}}
	r.controller = c
	return c, r
}

// What an agent hands over and nobody can read ends its trial at once, and names the agent.
func TestWhatCannotBeReadEndsTheWorker(t *testing.T) {
	for _, c := range []struct{ part, data string }{{"1/1", "{"}, {"2/2", "{}"}, {"", "{}"}, {"1/1", `{"result":{"client":{"requests":"many"}}}`}} {
		on, r := waiting()
		on.handleKept("a", "kept", kept("r.w1", c.part, []byte(c.data)))
		if _, err := r.Result(t.Context()); err == nil || !strings.Contains(err.Error(), "a: read the agent's message about a worker") {
			t.Errorf("part %q, %q: %v", c.part, c.data, err)
		}
	}
	on, r := waiting()
	on.handleKept("a", "kept", kept("r.w2", "1/1", []byte("{"))) // of another worker
	on.handleLive("a", "wl.mine.from.a.live.r.w1", []byte("{"))  // what may be lost may be spoilt, too
	if r.failure != nil {
		t.Error(r.failure)
	}
}

// What no client can have measured is refused, and its agent named, whether it is alone or one
// of several.
func TestNonsenseIsRefused(t *testing.T) {
	sound := func() worker.ClientResult { return worker.ClientResult{BeginNS: 1e9, EndNS: 2e9} }
	for name, spoil := range map[string]func(*worker.ClientResult){
		"a window without length":  func(r *worker.ClientResult) { r.EndNS = r.BeginNS },
		"a window of a week":       func(r *worker.ClientResult) { r.EndNS += 7 * 24 * 3600e9 },
		"a window of all time":     func(r *worker.ClientResult) { r.BeginNS, r.EndNS = math.MinInt64, math.MaxInt64 },
		"a pause below zero":       func(r *worker.ClientResult) { r.PausedNS = -1 },
		"requests below zero":      func(r *worker.ClientResult) { r.Requests, r.Service.Count = -5, -5 },
		"completed below zero":     func(r *worker.ClientResult) { r.Completed = -5 },
		"more failures than calls": func(r *worker.ClientResult) { r.Failures = []record.ErrorCount{{Class: "x", Count: 3}} },
		"calls without times":      func(r *worker.ClientResult) { r.Requests = 7 },
		"endlessly many in flight": func(r *worker.ClientResult) { r.InFlight = math.MaxFloat64 },
		"calls in slices alone":    func(r *worker.ClientResult) { r.Slices = []record.Slice{{Requests: 1}} },
		"a slice below zero":       func(r *worker.ClientResult) { r.Slices = []record.Slice{{Requests: -1}, {Requests: 1 + r.Requests}} },
		"another's histogram": func(r *worker.ClientResult) {
			r.Requests, r.Service.Count, r.Service.Histogram = 1, 1, "HISTFAAAAB42"
		},
	} {
		bad, good := sound(), sound()
		spoil(&bad)
		part := worker.ClientPart{Agent: "liar", Clients: 1, Result: worker.Result{Client: &bad}}
		if err := crowd.CheckPart(&part); err == nil || !strings.Contains(err.Error(), "liar") {
			t.Errorf("%s, alone: %v", name, err)
		}
		_, err := crowd.Merge([]worker.ClientPart{{Agent: "c", Clients: 1, Result: worker.Result{Client: &good}}, part}, nil)
		if err == nil || !strings.Contains(err.Error(), "liar") {
			t.Errorf("%s, one of several: %v", name, err)
		}
	}
	if err := crowd.CheckPart(&worker.ClientPart{Agent: "liar"}); err == nil {
		t.Error("no result is one")
	}
}

// A result of another trial, or of another order, is refused.
func TestAResultThatDoesNotFitIsRefused(t *testing.T) {
	const ordered, now = int64(100e9), int64(110e9)
	for name, c := range map[string]struct {
		spoil func(*worker.ClientResult)
		want  string
	}{
		"as ordered":         {func(*worker.ClientResult) {}, ""},
		"an earlier trial's": {func(r *worker.ClientResult) { r.BeginNS, r.EndNS = 90e9, 93e9 }, "not that of this trial"},
		"a later one's":      {func(r *worker.ClientResult) { r.EndNS += 10e9 }, "not that of this trial"},
		"a longer window":    {func(r *worker.ClientResult) { r.EndNS += 2e9 }, "a window of 5s: the order was 3s"},
		"no slices":          {func(r *worker.ClientResult) { r.Slices = nil }, "0 slices: the order was 2"},
		"a later slice":      {func(r *worker.ClientResult) { r.Slices[1].AtNS++ }, "slice 2 of the result lasts from 102000000001"},
		"a longer slice":     {func(r *worker.ClientResult) { r.Slices[0].TookNS++ }, "slice 1 of the result"},
		"ended early":        {func(r *worker.ClientResult) { r.Slices[1].TookNS--; r.EndedEarly = true }, ""},
		"more requests":      {func(r *worker.ClientResult) { r.Requests = 22 }, "22 requests: the order was 21"},
	} {
		_, r := waiting()
		r.spec = worker.Spec{Role: worker.ClientRole, Client: &worker.ClientSpec{Clients: 4, Load: worker.Load{DurationNS: 3e9, RequestsPerClient: 5, ExtraRequests: 1}}}
		r.orderedNS = ordered
		result := worker.ClientResult{BeginNS: 101e9, EndNS: 104e9}
		result.Requests = 21
		r.slices = []load.Slice{{From: 101e9, To: 101e9 + 5}, {From: 102e9, To: 102e9 + 5}}
		result.Slices = []record.Slice{{TookNS: 5}, {AtNS: 1e9, TookNS: 5}}
		c.spoil(&result)
		err := r.checkFits(&worker.Result{Client: &result}, now)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	_, r := waiting()
	r.spec.Role = worker.ClientRole
	if err := r.checkFits(&worker.Result{Server: &worker.ServerResult{}}, now); err == nil {
		t.Error("a server's result was taken for a client's")
	}
}

// FuzzKept has an agent tell whatever it likes: it is refused, or makes a result that a record
// can hold.
func FuzzKept(f *testing.F) {
	f.Add([]byte(`{"result":{"client":{"begin_ns":1000000000,"end_ns":2000000000}},"intervals":[{"start_ns":1,"took_ns":9}]}`), int64(3e10))
	f.Add([]byte(`{"result":{"client":{"begin_ns":-9223372036854775808,"end_ns":9223372036854775807,"intervals":[{}]}}}`), int64(-1))
	f.Add([]byte(`{"result":{"machine":{"watched":[{}]},"parts":[{}],"client":{"requests":-1,"in_flight":1e308}}}`), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, message []byte, offset int64) {
		on, r := waiting()
		r.offsetNS.Store(offset)
		on.handleKept("a", "kept", kept("r.w1", "1/1", message))
		if r.measured.Client == nil {
			return
		}
		parts := []worker.ClientPart{{Agent: "a", Clients: 1, Result: r.measured}, {Agent: "b", Clients: 1, Result: r.measured}}
		_ = crowd.CheckPart(&parts[0])
		merged, err := crowd.Merge(parts, [][]worker.Interval{r.intervals, r.intervals})
		if err != nil {
			return
		}
		if _, err := json.Marshal(merged); err != nil {
			t.Errorf("%s made what no record holds: %v", message, err)
		}
	})
}

// A forged report of a probe ends the trial, and its agent is named. It comes in the last message, as a true
// one does, or already with the result.
func TestForgedReportsOfProbesAreRefused(t *testing.T) {
	const sound, negative, cpu = `{"method":"BPF","syscalls":[{"name":"read","count":3}]}`, `{"method":"BPF","syscalls":[{"name":"read","count":-3}]}`, `{"method":"perf","stacks":{"unit":"ns","frames":[],"stacks":[]}}`
	for name, c := range map[string]struct{ ended, withResult, want string }{
		"true":        {sound, "", ""},
		"negative":    {negative, "", `a: the report of the probe was refused: it has -3 system calls "read"`},
		"other kind":  {cpu, "", "a: the report of the probe was refused: it has figures of another kind, and the order was the probe syscalls"},
		"too soon":    {sound, negative, "a: the report of the probe was refused: it has -3 system calls"},
		"as a number": {"7", "", "a: read the agent's message about a worker"},
	} {
		on, r := waiting()
		r.spec = worker.Spec{Role: worker.ServerRole, Probe: record.ProbeSyscalls}
		r.orderedNS = clock.Now()
		result := `{"result":{"server":{}}}`
		if c.withResult != "" {
			result = `{"result":{"server":{},"machine":{"seen":` + c.withResult + `}}}`
		}
		for id, message := range []string{result, `{"ended":{"machine":{"seen":` + c.ended + `}}}`} {
			m := kept("r.w1", "1/1", []byte(message))
			m.Header.Set(idHeader, fmt.Sprint(id))
			on.handleKept("a", "kept", m)
		}
		got, err := r.Result(t.Context())
		if err == nil {
			err = r.failure
		}
		if c.want == "" && (err != nil || got.Machine == nil || got.Machine.Seen.Syscalls[0].Count != 3) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %+v, %v, want %q", name, got.Machine, err, c.want)
		}
	}
}
