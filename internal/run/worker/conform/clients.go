package conform

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
)

// expectRequests expects the client to measure this many requests. 0 allows any number.
func (p Peer) expectRequests(requests int64, load worker.Load) func(T) {
	return func(t T) {
		spec := p.clientSpec(p.startReferenceServer(t))
		load.DrainNS = int64(waitTimeout)
		result := p.measureUntilRequest(t, spec, load)
		expectConsistentResult(t, result, requests)
		if load.Model == "open" && (result.Response == nil || result.Pacing == nil) {
			t.Error("the result of an open loop lacks response times or pacing")
		}
	}
}

// measureUntilRequest repeats a measurement until its window contains a request, since a busy
// machine may send none in a short window. Each window is eight times as long as the one before.
func (p Peer) measureUntilRequest(t T, spec worker.Spec, load worker.Load) *worker.ClientResult {
	t.Helper()
	for {
		spec.Client.Load = load
		result := p.measureWith(t, p.Command, spec)
		window := result.EndNS - result.BeginNS
		if load.Model == "closed" && load.DurationNS > 0 && window != load.DurationNS {
			t.Errorf("the client's window lasts %v: want %v", time.Duration(window), time.Duration(load.DurationNS))
		}
		longer := 8 * load.DurationNS
		if result.Requests > 0 || longer == 0 || longer > int64(waitTimeout) {
			return result
		}
		load.DurationNS = longer
	}
}

func (p Peer) checkNoListener(t T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	// While taken is open, no other program can listen at this address.
	address := taken.LocalAddr().String()
	client := p.startWorker(t, p.Command, p.newSpec(worker.ClientRole, address))
	_, err = client.Result(p.waitContext(t))
	expectErrorEvent(t, err, address)
}

func (p Peer) checkClientInputEnd(t T) {
	spec := p.clientSpec(p.startReferenceServer(t))
	spec.Client.Load.RequestsPerClient = 0
	spec.Client.Load.DurationNS = int64(time.Hour)
	client := p.startWorker(t, p.Command, spec)
	if _, err := client.Ready(p.waitContext(t)); err != nil {
		t.Fatal(err)
	}
	// The client must end. It may also report an error.
	if err := client.Stop(); err != nil && strings.Contains(err.Error(), "and was killed") {
		t.Errorf("the client did not end when its input ended: %v", err)
	}
	if result, err := client.Result(p.waitContext(t)); err == nil {
		t.Errorf("the client printed a measurement of an unfinished window: %+v", result.Client)
	}
}

// checkLoadRefusal expects an error event, because the worker's capabilities do not list the load.
func (p Peer) checkLoadRefusal(t T) {
	spec := p.clientSpec(p.startReferenceServer(t))
	spec.Client.Load = worker.Load{Model: "open", RatePerSecond: 100, Arrivals: "constant", DurationNS: 1e8, DrainNS: int64(waitTimeout)}
	_, err := p.startWorker(t, p.Command, spec).Result(p.waitContext(t))
	expectErrorEvent(t, err, "open")
}

func (p Peer) expectConnections(mode string) func(T) {
	return func(t T) {
		spec := p.clientSpec(p.startReferenceServer(t))
		spec.Client.Connection = mode
		want := int64(callersPerClient)
		switch mode {
		case "shared":
			want = 1
		case "pool":
			spec.Client.Connection, want = "pool:2", 2
		case "new", "resumed", "0rtt":
			want = callersPerClient * requestsPerCaller
		}
		result := p.measureWith(t, p.Command, spec)
		expectConsistentResult(t, result, callersPerClient*requestsPerCaller)
		made := result.Connections
		if perRequest := want > callersPerClient; perRequest && made.During < want || !perRequest && (made.Total.Opened != want || made.During != 0) {
			t.Errorf("with the connection mode %s, the client opened %d connections, %d of them in the window: want %d", spec.Client.Connection, made.Total.Opened, made.During, want)
		}
	}
}

// checkWrongAnswers expects the client to count changed answers as failed. It runs only for the
// stack tcp, because there is no server with wrong answers for other stacks.
func (p Peer) checkWrongAnswers(t T) {
	if name, _, _ := strings.Cut(p.Stack, ":"); name != "tcp" {
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() { // ends when the listener is closed
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answerWrongly(conn) // ends when the connection is closed
		}
	}()
	result := p.measureWith(t, p.Command, p.newSpec(worker.ClientRole, listener.Addr().String()))
	var wrong int64
	for _, f := range result.Failures {
		if f.Code == "WrongAnswer" {
			wrong += f.Count
		}
	}
	if wrong != callersPerClient*requestsPerCaller {
		t.Errorf("each of %d answers had a changed byte, but the client reported only %d wrong answers", callersPerClient*requestsPerCaller, wrong)
	}
}

// answerWrongly sends each frame back with one changed byte in its data.
func answerWrongly(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		message := make([]byte, binary.BigEndian.Uint32(head[:])&(1<<20-1))
		if _, err := io.ReadFull(in, message); err != nil {
			return
		}
		message[len(message)/2] ^= 1 // the middle of a message belongs to its data
		if _, err := conn.Write(append(head[:], message...)); err != nil {
			return
		}
	}
}

// startUntilWindow starts a client and returns when the client's window has opened. Later progress
// of the client arrives in the channel said.
func (p Peer) startUntilWindow(t T, load worker.Load) (_ *worker.Process, said <-chan live.Progress) {
	t.Helper()
	spec := p.clientSpec(p.startReferenceServer(t))
	load.DrainNS = int64(waitTimeout)
	spec.Client.Load = load
	client, progress := p.startWithProgress(t, spec)
	p.awaitProgress(t, progress, "that its window is open", func(p live.Progress) bool { return !p.Warming && p.Done > 0 })
	return client, progress
}

// startWithProgress starts a client. The client's progress arrives in the channel said.
func (p Peer) startWithProgress(t T, spec worker.Spec) (_ *worker.Process, said <-chan live.Progress) {
	t.Helper()
	// No client prints 1,000 progress events during a check.
	progress := make(chan live.Progress, 1000)
	client := launchWorker(t, worker.Launch{
		Name: "client", Command: p.Command, Spec: spec,
		OnProgress: func(p live.Progress) {
			select {
			case progress <- p:
			default:
			}
		},
	})
	return client, progress
}

// awaitProgress waits for a progress event for which is returns true. Errors contain what.
func (p Peer) awaitProgress(t T, said <-chan live.Progress, what string, is func(live.Progress) bool) live.Progress {
	t.Helper()
	ctx := p.waitContext(t)
	for {
		select {
		case now := <-said:
			if is(now) {
				return now
			}
		case <-ctx.Done():
			t.Fatalf("the client did not report %s within %v", what, waitTimeout)
		}
	}
}

func sendControl(t T, client *worker.Process, control worker.Control, at int64) {
	t.Helper()
	if err := client.SendControl(worker.ControlOrder{Control: control, AtNS: at}); err != nil {
		t.Fatal(err)
	}
}

// checkEarlyEnd sends an unknown control and then the control "end", in a window of an hour. It
// expects the client to end.
func (p Peer) checkEarlyEnd(t T) {
	client, _ := p.startUntilWindow(t, worker.Load{Model: "closed", DurationNS: int64(time.Hour)})
	sendControl(t, client, "no-such-control", 0)
	sendControl(t, client, worker.EndControl, 0)
	p.expectEarlyEnd(t, client)
}

func (p Peer) expectEarlyEnd(t T, client *worker.Process) *worker.ClientResult {
	t.Helper()
	result := p.clientResult(t, client)
	if !result.EndedEarly {
		t.Error("the window was told to end, but the result lacks `ended_early`")
	}
	expectConsistentResult(t, result, 0)
	return result
}

// checkPause expects that calls stop in a pause, and that new calls begin after the pause.
func (p Peer) checkPause(t T) {
	client, said := p.startUntilWindow(t, worker.Load{Model: "closed", DurationNS: int64(time.Hour)})
	sendControl(t, client, worker.PauseControl, 0)
	p.awaitProgress(t, said, "that it is paused", func(p live.Progress) bool { return p.Paused })
	// By the second such event, the calls in flight have ended.
	p.awaitProgress(t, said, "its pause again", func(p live.Progress) bool { return p.Paused })
	before := p.awaitProgress(t, said, "its pause again", func(p live.Progress) bool { return p.Paused })
	after := p.awaitProgress(t, said, "its pause again", func(p live.Progress) bool { return p.Paused })
	if before.Done != after.Done {
		t.Errorf("the client was paused, but %d calls ended in the pause: want 0", after.Done-before.Done)
	}
	sendControl(t, client, worker.ResumeControl, 0)
	p.awaitProgress(t, said, "that it sends again after the pause", func(p live.Progress) bool { return !p.Paused && p.Done > after.Done })
	sendControl(t, client, worker.EndControl, 0)
	result := p.expectEarlyEnd(t, client)
	if result.Pauses != 1 || result.PausedNS <= 0 || result.PausedNS >= result.EndNS-result.BeginNS {
		t.Errorf("the result has %d pauses of %v in all, in a window of %v: want 1 pause that is shorter than the window", result.Pauses, time.Duration(result.PausedNS), time.Duration(result.EndNS-result.BeginNS))
	}
}

// checkSlices expects a client of a block to rest once it is warmed up, to send in its slices only,
// and to print its result after the last slice of all clients.
func (p Peer) checkSlices(t T) {
	spec := p.clientSpec(p.startReferenceServer(t))
	spec.Client.Block = true
	spec.Client.Load = worker.Load{
		Model: "closed", DurationNS: int64(900 * time.Millisecond), DrainNS: int64(waitTimeout),
		WarmUpAtLeastNS: int64(20 * time.Millisecond), WarmUpAtMostNS: int64(50 * time.Millisecond),
	}
	client, said := p.startWithProgress(t, spec)
	rests := func(p live.Progress) bool { return p.Settled && p.Paused }
	p.awaitProgress(t, said, "that it rests", rests)
	p.awaitProgress(t, said, "its rest again", rests) // calls in flight have ended
	before, after := p.awaitProgress(t, said, "its rest again", rests), p.awaitProgress(t, said, "its rest again", rests)
	if before.Done != after.Done {
		t.Errorf("the client rests, but %d calls ended: want 0", after.Done-before.Done)
	}
	const slice, others = 300 * time.Millisecond, 50 * time.Millisecond
	begin := clock.Now() + int64(time.Second)
	var all []load.Slice
	for range 3 {
		all = append(all, load.Slice{Send: begin, From: begin + int64(10*time.Millisecond), To: begin + int64(10*time.Millisecond+slice)})
		begin = all[len(all)-1].To + int64(others)
	}
	if err := client.SendControl(worker.ControlOrder{Control: worker.SlicesControl, AtNS: begin, Slices: all}); err != nil {
		t.Fatal(err)
	}
	result := p.clientResult(t, client)
	if now := clock.Now(); now < begin {
		t.Errorf("the result came %v before the end of the others' slices", time.Duration(begin-now))
	}
	expectConsistentResult(t, result, 0)
	if result.BeginNS != all[0].From || result.EndNS != all[2].To || result.PausedNS != int64(2*(others+10*time.Millisecond)) {
		t.Errorf("the window lasts from %d to %d, less %v: want %d to %d, less %v", result.BeginNS, result.EndNS, time.Duration(result.PausedNS), all[0].From, all[2].To, 2*(others+10*time.Millisecond))
	}
	var requests int64
	for _, s := range result.Slices {
		requests += s.Requests
	}
	if len(result.Slices) != len(all) || requests != result.Requests {
		t.Errorf("%d slices with %d requests: want %d with %d", len(result.Slices), requests, len(all), result.Requests)
	}
}

// groupClients is the number of clients in a group. The client worker under test has the last half.
const groupClients = 2 * callersPerClient

// startInGroup starts a client that is a part of a group, and waits until the client is ready.
func (p Peer) startInGroup(t T, load worker.Load) (*worker.Process, <-chan live.Progress) {
	t.Helper()
	spec := p.clientSpec(p.startReferenceServer(t))
	load.DrainNS = int64(waitTimeout)
	spec.Client.Load, spec.Client.Group = load, &worker.Group{First: callersPerClient, Of: groupClients}
	client, said := p.startWithProgress(t, spec)
	if _, err := client.Ready(p.waitContext(t)); err != nil {
		t.Fatal(err)
	}
	return client, said
}

// expectGroupLoad expects that a client makes no call before the control "go", warms up until the
// control "open", and then measures its share of the group's load.
func (p Peer) expectGroupLoad(load worker.Load) func(T) {
	return func(t T) {
		load.WarmUpAtLeastNS, load.WarmUpAtMostNS = int64(20*time.Millisecond), int64(50*time.Millisecond)
		client, said := p.startInGroup(t, load)
		p.awaitProgress(t, said, "any progress before the control \"go\"", func(live.Progress) bool { return true })
		if now := p.awaitProgress(t, said, "any further progress before the control \"go\"", func(live.Progress) bool { return true }); now.Done > 0 || now.Settled {
			t.Errorf("before the control \"go\", the client made %d calls (want 0); settled: %v (want false)", now.Done, now.Settled)
		}
		began := clock.Now()
		sendControl(t, client, worker.GoControl, began)
		settled := p.awaitProgress(t, said, "that it is settled", func(p live.Progress) bool { return p.Settled })
		if !settled.Warming {
			t.Error("before the control \"open\", the client does not report that it warms up")
		}
		more := p.awaitProgress(t, said, "that it goes on warming up", func(p live.Progress) bool { return p.Done > settled.Done })
		if !more.Settled || !more.Warming {
			t.Error("the client was settled, but is not settled now, without the control \"open\"")
		}
		opens := clock.Now() + int64(100*time.Millisecond)
		sendControl(t, client, worker.OpenControl, opens)
		result := p.clientResult(t, client)
		if result.BeginNS < opens {
			t.Errorf("the window opened %v before the instant of the control \"open\"", time.Duration(opens-result.BeginNS))
		}
		if load.RequestsPerClient > 0 {
			own := int64(callersPerClient*load.RequestsPerClient + max(0, load.ExtraRequests-callersPerClient))
			expectConsistentResult(t, result, own)
			return
		}
		expectConsistentResult(t, result, 0)
		expectGroupShare(t, load, result, result.BeginNS-began)
	}
}

// expectGroupShare expects that the client sent its share of a constant rate's arrivals. after is
// the time from the first arrival until the window opens, in nanoseconds.
func expectGroupShare(t T, load worker.Load, result *worker.ClientResult, after int64) {
	t.Helper()
	want := int64(0)
	for n := int64(0); ; n++ {
		due := int64(float64(n) * 1e9 / load.RatePerSecond)
		if due >= after+load.DurationNS {
			break
		}
		if due >= after && n%groupClients >= callersPerClient {
			want++
		}
	}
	if result.Pacing == nil || result.Pacing.Scheduled != want {
		t.Errorf("the result's pacing is %+v: want %d scheduled arrivals in the window, the share of these clients", result.Pacing, want)
	}
}

func (p Peer) checkGroupWithoutWarmUp(t T) {
	client, _ := p.startInGroup(t, worker.Load{Model: "closed", RequestsPerClient: requestsPerCaller})
	began := clock.Now() + int64(100*time.Millisecond)
	sendControl(t, client, worker.GoControl, began)
	result := p.clientResult(t, client)
	expectConsistentResult(t, result, callersPerClient*requestsPerCaller)
	if result.BeginNS < began {
		t.Errorf("the window opened %v before the instant of the control \"go\"", time.Duration(began-result.BeginNS))
	}
}
