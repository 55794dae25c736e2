package link

import (
	"context"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
)

// bothWays is a link that does the same to both directions.
func bothWays(p record.Way) Settings { return Settings{Up: p, Down: p, Seed: 1} }

func listenAt(t testing.TB, n *Network) net.Listener {
	t.Helper()
	listener, err := n.listen(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

func dialFrom(t testing.TB, n *Network, address string) net.Conn {
	t.Helper()
	conn, err := n.dial(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// The truth that is put in: 5 ms each way. What must come out: a connection
// takes 10 ms, and an echo another 10.
func TestADelayIsARoundTripOfTwice(t *testing.T) {
	const delay = 5 * time.Millisecond
	n := newNetwork(t, bothWays(record.Way{DelayNS: int64(delay)}))
	listener := listenAt(t, n)
	go serveEcho(listener) // ends with the connection or the listener

	begin := time.Now()
	conn := dialFrom(t, n, listener.Addr().String())
	connected := time.Since(begin)

	message := make([]byte, 100)
	shortest := time.Hour
	// On a busy machine it takes longer until one meets no delay but the link's.
	for i := 0; i < 20 || shortest > 3*delay && time.Since(begin) < time.Minute; i++ {
		begin := time.Now()
		if _, err := conn.Write(message); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, message); err != nil {
			t.Fatal(err)
		}
		shortest = min(shortest, time.Since(begin))
	}
	stats := n.Stop()
	t.Logf("connected in %v, echoed in %v at best; %+v", connected, shortest, stats)
	if connected < 2*delay || shortest < 2*delay {
		t.Errorf("a round trip took %v and %v, less than two delays of %v", connected, shortest, delay)
	}
	if shortest > 3*delay {
		t.Errorf("the shortest round trip took %v, want little over %v", shortest, 2*delay)
	}
	// Each frame was held for the delay and for what it was late, however busy the machine is.
	for name, path := range map[string]*record.LinkWay{"up": stats.Up, "down": stats.Down} {
		const within = delay / 50 // the histograms' resolution is finer
		if path.DelayP50NS == nil {
			continue
		}
		held, late := time.Duration(*path.DelayP50NS), time.Duration(*path.LateP50NS)
		if off := held - late - delay; off < -within || off > within {
			t.Errorf("%s: held for %v (%v of it late), want %v without the lateness", name, held, late, delay)
		}
	}
	if stats.Up.Sent < 20 || stats.Down.Sent < 20 || stats.Up.Overrun+stats.Down.Overrun != 0 {
		t.Errorf("%+v: want the frames of 20 echoes and none dropped", stats)
	}
}

// Frames are carried in the order they came and whole: a stream arrives as it
// was sent.
func TestAStreamArrivesWhole(t *testing.T) {
	n := newNetwork(t, bothWays(record.Way{DelayNS: int64(time.Millisecond)}))
	listener := listenAt(t, n)
	go serveEcho(listener) // ends with the connection or the listener
	conn := dialFrom(t, n, listener.Addr().String())
	sent := make([]byte, 1<<20)
	for i := range sent {
		sent[i] = byte(i * 7 >> 3)
	}
	go func() { _, _ = conn.Write(sent) }() // ends with the connection
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Fatal(err)
	}
	if string(got) != string(sent) {
		t.Error("what arrived is not what was sent")
	}
}

// A link that loses one packet in ten delivers all the same, since TCP sends again; as many
// are lost as was asked for.
func TestALossIsAShareOfTheFrames(t *testing.T) {
	const loss = 0.1
	n := newNetwork(t, bothWays(record.Way{DelayNS: int64(100 * time.Microsecond), Loss: loss}))
	listener := listenAt(t, n)
	go serveEcho(listener) // ends with the connection or the listener
	conn := dialFrom(t, n, listener.Addr().String())
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	const length = 200 << 10
	go func() { _, _ = conn.Write(make([]byte, length)) }() // ends with the connection
	if _, err := io.ReadFull(conn, make([]byte, length)); err != nil {
		t.Fatal(err)
	}
	stats := n.Stop()
	share := float64(stats.Up.Lost+stats.Down.Lost) / float64(stats.Up.Frames+stats.Down.Frames)
	t.Logf("%+v", stats)
	if share < loss/2 || share > 2*loss {
		t.Errorf("lost a share of %.3f, want %v", share, loss)
	}
}

func TestANetworkLeavesNothingBehind(t *testing.T) {
	threads, descriptors := runtime.NumGoroutine(), openDescriptors(t)
	for range 3 {
		n, err := New(bothWays(record.Way{DelayNS: int64(time.Millisecond)}))
		if err != nil {
			t.Skip(err)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if now := openDescriptors(t); now > descriptors {
		t.Errorf("%d descriptors, and %d before", now, descriptors)
	}
	if now := runtime.NumGoroutine(); now > threads+1 {
		t.Errorf("%d goroutines, and %d before", now, threads)
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	open := 0
	for fd := range 1024 {
		var status syscall.Stat_t
		if syscall.Fstat(fd, &status) == nil {
			open++
		}
	}
	return open
}
