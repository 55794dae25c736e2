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
	"wirelab.dev/internal/run/worker"
)

// expectRequests expects the peer's client to measure the given number of requests under a load. 0
// stands for any number.
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

// measureUntilRequest measures until a window contains a request, since a short window on a busy
// machine may contain none. Each further window is eight times as long.
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
	address := taken.LocalAddr().String() // the open connection keeps other programs from listening here
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
	// The client may report an error, but must end.
	if err := client.Stop(); err != nil && strings.Contains(err.Error(), "and was killed") {
		t.Errorf("the client did not end when its input ended: %v", err)
	}
	if result, err := client.Result(p.waitContext(t)); err == nil {
		t.Errorf("the client printed a measurement of an unfinished window: %+v", result.Client)
	}
}

// checkLoadRefusal expects an error event for a load that the worker's capabilities do not list.
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

// checkWrongAnswers expects that a changed answer counts as failed. It checks only the stack tcp,
// since only a server for tcp can change answers.
func (p Peer) checkWrongAnswers(t T) {
	if name, _, _ := strings.Cut(p.Stack, ":"); name != "tcp" {
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() { // ends with the listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answerWrongly(conn) // ends with the connection
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

// answerWrongly answers each frame with the same frame, but changes one byte of its data.
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
		message[len(message)/2] ^= 1 // the middle of the message lies in its data
		if _, err := conn.Write(append(head[:], message...)); err != nil {
			return
		}
	}
}

// startUntilWindow starts a client of the load and returns when its window is open. The channel
// said then gets the client's later progress.
func (p Peer) startUntilWindow(t T, load worker.Load) (_ *worker.Process, said <-chan live.Progress) {
	t.Helper()
	spec := p.clientSpec(p.startReferenceServer(t))
	load.DrainNS = int64(waitTimeout)
	spec.Client.Load = load
	client, progress := p.startWithProgress(t, spec)
	p.awaitProgress(t, progress, "that its window is open", func(p live.Progress) bool { return !p.Warming && p.Done > 0 })
	return client, progress
}

// startWithProgress starts a client. The channel said gets the client's progress.
func (p Peer) startWithProgress(t T, spec worker.Spec) (_ *worker.Process, said <-chan live.Progress) {
	t.Helper()
	progress := make(chan live.Progress, 1000) // more than any client prints in the time of a check
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

// awaitProgress waits for a progress report that meets a condition. what describes the condition in
// errors.
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

// checkEarlyEnd sends the control "end" during a window of an hour, after an unknown control, and
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

// checkPause expects that no call begins in a pause, and that calls begin again after it.
func (p Peer) checkPause(t T) {
	client, said := p.startUntilWindow(t, worker.Load{Model: "closed", DurationNS: int64(time.Hour)})
	sendControl(t, client, worker.PauseControl, 0)
	p.awaitProgress(t, said, "that it is paused", func(p live.Progress) bool { return p.Paused })
	p.awaitProgress(t, said, "its pause again", func(p live.Progress) bool { return p.Paused }) // calls in flight have ended
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

// groupClients is the size of a group. Its second half are the clients under test.
const groupClients = 2 * callersPerClient

// startInGroup starts a client of a group, and returns when the client is ready.
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

// expectGroupLoad expects three things of a client: it makes no call before the control "go", it
// warms up until the control "open", and it then measures its share of the group's load.
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

// expectGroupShare expects the client's share of the arrivals of a constant rate. after is the time
// from the first arrival to the window's begin, in nanoseconds.
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
