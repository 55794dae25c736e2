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

// measures expects the peer's client to measure that many requests (0: any number) under a load.
func (p Peer) measures(requests int64, load worker.Load) func(T) {
	return func(t T) {
		spec := p.client(p.otherServer(t))
		load.DrainNS = int64(patience)
		result := p.measureSome(t, spec, load)
		checkResult(t, result, requests)
		if load.Model == "open" && (result.Response == nil || result.Pacing == nil) {
			t.Error("the result of an open loop lacks response times or pacing")
		}
	}
}

// measureSome measures until a window holds a request: on a busy machine none may end in a short
// one. Each further window is eight times as long.
func (p Peer) measureSome(t T, spec worker.Spec, load worker.Load) *worker.ClientResult {
	t.Helper()
	for {
		spec.Client.Load = load
		result := p.measure(t, p.Command, spec)
		window := result.EndNS - result.BeginNS
		if load.Model == "closed" && load.DurationNS > 0 && window != load.DurationNS {
			t.Errorf("the window is %v, want %v", time.Duration(window), time.Duration(load.DurationNS))
		}
		longer := 8 * load.DurationNS
		if result.Requests > 0 || longer == 0 || longer > int64(patience) {
			return result
		}
		load.DurationNS = longer
	}
}

func (p Peer) noListener(t T) {
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
	address := taken.LocalAddr().String() // nobody listens on it, and no other program gets it
	client := p.start(t, p.Command, p.spec(worker.ClientRole, address))
	_, err = client.Result(p.context(t))
	wantError(t, err, address)
}

func (p Peer) clientInputEnds(t T) {
	spec := p.client(p.otherServer(t))
	spec.Client.Load.RequestsPerClient = 0
	spec.Client.Load.DurationNS = int64(time.Hour)
	client := p.start(t, p.Command, spec)
	if _, err := client.Ready(p.context(t)); err != nil {
		t.Fatal(err)
	}
	// It may call that an error.
	if err := client.Stop(); err != nil && strings.Contains(err.Error(), "and was killed") {
		t.Errorf("it did not end when its input ended: %v", err)
	}
	if result, err := client.Result(p.context(t)); err == nil {
		t.Errorf("it printed a measurement of half a window: %+v", result.Client)
	}
}

// refusesLoad expects an error event for a load that is not among the worker's capabilities.
func (p Peer) refusesLoad(t T) {
	spec := p.client(p.otherServer(t))
	spec.Client.Load = worker.Load{Model: "open", RatePerSecond: 100, Arrivals: "constant", DurationNS: 1e8, DrainNS: int64(patience)}
	_, err := p.start(t, p.Command, spec).Result(p.context(t))
	wantError(t, err, "open")
}

func (p Peer) connects(mode string) func(T) {
	return func(t T) {
		spec := p.client(p.otherServer(t))
		spec.Client.Connection = mode
		want := int64(clients)
		switch mode {
		case "shared":
			want = 1
		case "pool":
			spec.Client.Connection, want = "pool:2", 2
		case "new", "resumed", "0rtt":
			want = clients * requests
		}
		result := p.measure(t, p.Command, spec)
		checkResult(t, result, clients*requests)
		made := result.Connections
		if perRequest := want > clients; perRequest && made.During < want || !perRequest && (made.Total.Opened != want || made.During != 0) {
			t.Errorf("%s: %d connections were opened, %d of them in the window; want %d", spec.Client.Connection, made.Total.Opened, made.During, want)
		}
	}
}

// wrongAnswers expects that a changed answer counts as failed. The only server that changes
// answers speaks bare TCP, so the check passes for other stacks.
func (p Peer) wrongAnswers(t T) {
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
			go lie(conn) // ends with the connection
		}
	}()
	result := p.measure(t, p.Command, p.spec(worker.ClientRole, listener.Addr().String()))
	var wrong int64
	for _, f := range result.Failures {
		if f.Code == "WrongAnswer" {
			wrong += f.Count
		}
	}
	if wrong != clients*requests {
		t.Errorf("%d of %d answers had a changed byte, and %d were reported as wrong", clients*requests, clients*requests, wrong)
	}
}

// lie answers plain frames after it has changed a byte of the data in each.
func lie(conn net.Conn) {
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
		message[len(message)/2] ^= 1 // a byte of the data, which is most of the message
		if _, err := conn.Write(append(head[:], message...)); err != nil {
			return
		}
	}
}

// controlled starts a client of the load and returns when its window is open. Its later
// progress comes over said.
func (p Peer) controlled(t T, load worker.Load) (_ *worker.Process, said <-chan live.Progress) {
	t.Helper()
	spec := p.client(p.otherServer(t))
	load.DrainNS = int64(patience)
	spec.Client.Load = load
	client, progress := p.heard(t, spec)
	p.until(t, progress, "that its window is open", func(p live.Progress) bool { return !p.Warming && p.Done > 0 })
	return client, progress
}

// heard starts a client. Its progress comes over said.
func (p Peer) heard(t T, spec worker.Spec) (_ *worker.Process, said <-chan live.Progress) {
	t.Helper()
	progress := make(chan live.Progress, 1000) // more than any client prints in the time of a check
	client := launch(t, worker.Launch{
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

// until waits for a progress report that meets a condition. what completes an error.
func (p Peer) until(t T, said <-chan live.Progress, what string, is func(live.Progress) bool) live.Progress {
	t.Helper()
	ctx := p.context(t)
	for {
		select {
		case now := <-said:
			if is(now) {
				return now
			}
		case <-ctx.Done():
			t.Fatalf("the client did not say %s within %v", what, patience)
		}
	}
}

func tell(t T, client *worker.Process, control worker.Control, at int64) {
	t.Helper()
	if err := client.Tell(worker.Order{Control: control, AtNS: at}); err != nil {
		t.Fatal(err)
	}
}

// endsEarly orders a window of an hour to end, after a control that nobody knows, and expects
// it to end.
func (p Peer) endsEarly(t T) {
	client, _ := p.controlled(t, worker.Load{Model: "closed", DurationNS: int64(time.Hour)})
	tell(t, client, "no-such-control", 0)
	tell(t, client, worker.EndControl, 0)
	p.ended(t, client)
}

func (p Peer) ended(t T, client *worker.Process) *worker.ClientResult {
	t.Helper()
	result := p.resultOf(t, client)
	if !result.EndedEarly {
		t.Error("the window was told to end, and its result does not say `ended_early`")
	}
	checkResult(t, result, 0)
	return result
}

// pauses expects no call to begin in a pause, and others after it.
func (p Peer) pauses(t T) {
	client, said := p.controlled(t, worker.Load{Model: "closed", DurationNS: int64(time.Hour)})
	tell(t, client, worker.PauseControl, 0)
	p.until(t, said, "that it is paused", func(p live.Progress) bool { return p.Paused })
	p.until(t, said, "it again", func(p live.Progress) bool { return p.Paused }) // calls in flight have ended
	before := p.until(t, said, "it again", func(p live.Progress) bool { return p.Paused })
	after := p.until(t, said, "it again", func(p live.Progress) bool { return p.Paused })
	if before.Done != after.Done {
		t.Errorf("in a pause %d calls ended", after.Done-before.Done)
	}
	tell(t, client, worker.ResumeControl, 0)
	p.until(t, said, "that it goes on", func(p live.Progress) bool { return !p.Paused && p.Done > after.Done })
	tell(t, client, worker.EndControl, 0)
	result := p.ended(t, client)
	if result.Pauses != 1 || result.PausedNS <= 0 || result.PausedNS >= result.EndNS-result.BeginNS {
		t.Errorf("pauses %d, of %v in a window of %v; want 1, of a part of it", result.Pauses, time.Duration(result.PausedNS), time.Duration(result.EndNS-result.BeginNS))
	}
}

// The clients under test are the last of a group of twice as many.
const group = 2 * clients

// joined starts a client of a group, which is ready when it returns.
func (p Peer) joined(t T, load worker.Load) (*worker.Process, <-chan live.Progress) {
	t.Helper()
	spec := p.client(p.otherServer(t))
	load.DrainNS = int64(patience)
	spec.Client.Load, spec.Client.Group = load, &worker.Group{First: clients, Of: group}
	client, said := p.heard(t, spec)
	if _, err := client.Ready(p.context(t)); err != nil {
		t.Fatal(err)
	}
	return client, said
}

// joins expects a client to call nobody before the control to go, to warm up until the control
// to open its window, and to measure its part of the group's load.
func (p Peer) joins(load worker.Load) func(T) {
	return func(t T) {
		load.WarmUpAtLeastNS, load.WarmUpAtMostNS = int64(20*time.Millisecond), int64(50*time.Millisecond)
		client, said := p.joined(t, load)
		p.until(t, said, "how far it is, before it may go", func(live.Progress) bool { return true })
		if now := p.until(t, said, "it again", func(live.Progress) bool { return true }); now.Done > 0 || now.Settled {
			t.Errorf("before the control to go, it made %d calls (want 0); settled: %v (want false)", now.Done, now.Settled)
		}
		began := clock.Now()
		tell(t, client, worker.GoControl, began)
		settled := p.until(t, said, "that it is settled", func(p live.Progress) bool { return p.Settled })
		if !settled.Warming {
			t.Error("before the control to open its window, it does not say that it warms up")
		}
		more := p.until(t, said, "that it goes on warming up", func(p live.Progress) bool { return p.Done > settled.Done })
		if !more.Settled || !more.Warming {
			t.Error("it was settled, and is no longer, without the control to open its window")
		}
		opens := clock.Now() + int64(100*time.Millisecond)
		tell(t, client, worker.OpenControl, opens)
		result := p.resultOf(t, client)
		if result.BeginNS < opens {
			t.Errorf("its window opened %v before it was to", time.Duration(opens-result.BeginNS))
		}
		if load.RequestsPerClient > 0 {
			own := int64(clients*load.RequestsPerClient + max(0, load.ExtraRequests-clients))
			checkResult(t, result, own)
			return
		}
		checkResult(t, result, 0)
		wantPart(t, load, result, result.BeginNS-began)
	}
}

// wantPart expects the client's share of the arrivals of a constant rate, in a window that opened
// this long after the first arrival.
func wantPart(t T, load worker.Load, result *worker.ClientResult, after int64) {
	t.Helper()
	want := int64(0)
	for n := int64(0); ; n++ {
		due := int64(float64(n) * 1e9 / load.RatePerSecond)
		if due >= after+load.DurationNS {
			break
		}
		if due >= after && n%group >= clients {
			want++
		}
	}
	if result.Pacing == nil || result.Pacing.Scheduled != want {
		t.Errorf("its pacing is %+v; want %d arrivals of its clients' share in its window", result.Pacing, want)
	}
}

func (p Peer) joinsCold(t T) {
	client, _ := p.joined(t, worker.Load{Model: "closed", RequestsPerClient: requests})
	began := clock.Now() + int64(100*time.Millisecond)
	tell(t, client, worker.GoControl, began)
	result := p.resultOf(t, client)
	checkResult(t, result, clients*requests)
	if result.BeginNS < began {
		t.Errorf("its window opened %v before it was to go", time.Duration(began-result.BeginNS))
	}
}
