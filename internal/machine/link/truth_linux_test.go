package link

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
)

// datagrams are a sender at the client's end and a receiver at the server's.
type datagrams struct {
	sender   *net.UDPConn
	receiver *net.UDPConn
}

func openDatagrams(tb testing.TB, n *Network) datagrams {
	tb.Helper()
	var d datagrams
	err := host.OnDisposableThread(func() (err error) {
		if err = n.EnterServer(); err != nil {
			return err
		}
		d.receiver, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(n.Address)})
		return err
	})
	if err == nil {
		err = host.OnDisposableThread(func() (err error) {
			if err = n.EnterClient(); err != nil {
				return err
			}
			d.sender, err = net.DialUDP("udp4", nil, d.receiver.LocalAddr().(*net.UDPAddr))
			return err
		})
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { d.sender.Close(); d.receiver.Close() })
	return d
}

// exchange sends numbered datagrams, so few at a time that no buffer overflows, and
// returns the numbers that came, in their order.
func (d datagrams) exchange(tb testing.TB, count int) []uint32 {
	tb.Helper()
	const (
		atOnce   = 50
		patience = 50 * time.Millisecond // for one that may be lost
		markers  = 2 * maxOvertaking
	)
	var came []uint32
	message := make([]byte, 8)
	send := func(number int) {
		binary.BigEndian.PutUint32(message, uint32(number))
		if _, err := d.sender.Write(message); err != nil {
			tb.Fatal(err)
		}
	}
	receive := func(last int) bool {
		for {
			if err := d.receiver.SetReadDeadline(time.Now().Add(patience)); err != nil {
				tb.Fatal(err)
			}
			if _, err := d.receiver.Read(message); err != nil {
				return false
			}
			came = append(came, binary.BigEndian.Uint32(message))
			if came[len(came)-1] >= uint32(last) {
				return true
			}
		}
	}
	for number := range count {
		send(number)
		if (number+1)%atOnce == 0 {
			receive(number)
		}
	}
	// After this many later ones have come, everything before has come or is lost.
	begin := time.Now()
	for number, seen := count, 0; seen < markers; number++ {
		send(number)
		if receive(count) {
			seen++
		} else if time.Since(begin) > time.Minute {
			tb.Fatal("nothing comes any more")
		}
	}
	return slices.DeleteFunc(came, func(number uint32) bool { return number >= uint32(count) })
}

// missing returns the numbers below count that did not come.
func missing(came []uint32, count int) (numbers []uint32) {
	seen := make([]bool, count)
	for _, number := range came {
		seen[number] = true
	}
	for number, ok := range seen {
		if !ok {
			numbers = append(numbers, uint32(number))
		}
	}
	return numbers
}

// losses returns the numbers of the frames that a path up loses.
func losses(p record.Way, seed uint64, frames int) (numbers []uint32) {
	d := newDiscipline(p, seed, 0)
	for number := range frames {
		if d.admit(0, 100, 0) == frameLost {
			numbers = append(numbers, uint32(number))
		}
	}
	return numbers
}

// The truth that is put in: a loss of 1 %, and one in runs. What must come out: those
// very datagrams that the seed names, and no others; the same when it is done again.
func TestASeedLosesTheSameDatagrams(t *testing.T) {
	const count = 5000
	for _, path := range []record.Way{{Loss: 0.01}, {BurstLoss: 0.05, BurstPackets: 4, DelayNS: int64(time.Millisecond), JitterNS: int64(time.Millisecond)}} {
		want := losses(path, 42, count)
		within(t, "lost", int64(len(want)), count, path.Loss+path.BurstLoss)
		for range 2 {
			n := newNetwork(t, Settings{Up: path, Seed: 42})
			got := missing(openDatagrams(t, n).exchange(t, count), count)
			counts := n.Stop()
			t.Logf("%+v", counts)
			if counts.Up.Overrun > 0 {
				t.Fatalf("%d frames were lost for want of room", counts.Up.Overrun)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v: %d datagrams lost, want %d: %v, want %v", path, len(got), len(want), got, want)
			}
			if all := losses(path, 42, int(counts.Up.Frames)); counts.Up.Lost != int64(len(all)) {
				t.Errorf("%+v: %d counted as lost, want %d", path, counts.Up.Lost, len(all))
			}
		}
	}
}

func TestAReceiverSeesDatagramsOvertaken(t *testing.T) {
	// A frame waits as long as its delay for others: longer than a sender is interrupted.
	const count, share, patient = 5000, 0.1, 20 * time.Millisecond
	n := newNetwork(t, Settings{Up: record.Way{Reorder: share, DelayNS: int64(patient)}, Seed: 1})
	came := openDatagrams(t, n).exchange(t, count)
	overtaken, ahead := int64(0), uint32(0)
	for _, number := range came {
		if number < ahead {
			overtaken++
		}
		ahead = max(ahead, number)
	}
	counts := n.Stop()
	t.Logf("%d of %d overtaken; %+v", overtaken, len(came), counts)
	if len(came) != count {
		t.Errorf("%d came, want %d", len(came), count)
	}
	// The markers of the end are counted too.
	if off := counts.Up.Reordered - overtaken; off < 0 || off > 20 {
		t.Errorf("%d came out of order, counted %d", overtaken, counts.Up.Reordered)
	}
	// The last ones of what is sent at once may find nobody to overtake them.
	if got := float64(overtaken) / count; got < share/2 || got > share*1.5 {
		t.Errorf("a share of %.3f was overtaken, want about %v", got, share)
	}
}

func TestAReceiverSeesDatagramsTwice(t *testing.T) {
	const count, share = 5000, 0.05
	n := newNetwork(t, Settings{Up: record.Way{Duplicate: share}, Seed: 1})
	came := openDatagrams(t, n).exchange(t, count)
	counts := n.Stop()
	if none := missing(came, count); len(none) > 0 {
		t.Errorf("%d never came", len(none))
	}
	// The markers of the end are counted too.
	if off := counts.Up.Duplicated - int64(len(came)-count); off < 0 || off > 20 {
		t.Errorf("%d came twice, counted %d", len(came)-count, counts.Up.Duplicated)
	}
	within(t, "twice", counts.Up.Duplicated, count, share)
}

// transfer sends a number of bytes up and returns the time from the first write to the
// last read.
func transfer(tb testing.TB, n *Network, bytes int) time.Duration {
	tb.Helper()
	listener := listenAt(tb, n)
	conn := dialFrom(tb, n, listener.Addr().String())
	accepted, err := listener.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	defer accepted.Close()
	if err := accepted.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		tb.Fatal(err)
	}
	begin := time.Now()
	go func() { _, _ = conn.Write(make([]byte, bytes)) }() // ends with the connection
	if _, err := io.CopyN(io.Discard, accepted, int64(bytes)); err != nil {
		tb.Fatal(err)
	}
	return time.Since(begin)
}

const (
	// segmentBytes is the payload of a full TCP segment with timestamps. frameBytes is the size
	// of its frame, with the headers of Ethernet, IP and TCP.
	segmentBytes = 1448
	frameBytes   = 1514
)

// The truth that is put in: 50 Mbit/s. What must come out: never more, and not a small part
// of it. How near it comes, the study of links tells and BenchmarkRate: that is the machine's.
func TestARateIsWhatATransferGets(t *testing.T) {
	const rate, segments = 50_000_000, 1000
	ideal := time.Duration(segments * frameBytes * 8 * int(time.Second) / rate)
	for _, s := range []Settings{{Up: record.Way{Rate: rate}}, {Up: record.Way{Rate: rate}, Down: record.Way{DelayNS: int64(time.Microsecond)}}} {
		begin, best := time.Now(), time.Hour
		for i := 0; i < 3 || best > ideal*2 && time.Since(begin) < time.Minute; i++ {
			n := newNetwork(t, s)
			best = min(best, transfer(t, n, segments*segmentBytes))
			counts := n.Stop()
			t.Logf("%v, ideal %v; %+v", best, ideal, counts)
		}
		// The kernel's bucket lets a millisecond's worth go at once.
		if best < ideal-2*time.Millisecond || best > ideal*2 {
			t.Errorf("%+v: the fastest transfer took %v, want about %v", s, best, ideal)
		}
	}
}

func TestAFullQueueDrops(t *testing.T) {
	const rate, queue, count = 1_000_000, 20_000, 100
	for _, s := range []Settings{{Up: record.Way{Rate: rate, QueueBytes: queue}}, {Emulated: true, Up: record.Way{Rate: rate, QueueBytes: queue, DelayNS: int64(time.Microsecond)}}} {
		n := newNetwork(t, s)
		d := openDatagrams(t, n)
		for range count {
			if _, err := d.sender.Write(make([]byte, 958)); err != nil { // 1000 with headers
				t.Fatal(err)
			}
		}
		came := 0
		for ; ; came++ {
			const silence = 2 * time.Second // at least 250 times what a packet takes
			if err := d.receiver.SetReadDeadline(time.Now().Add(silence)); err != nil {
				t.Fatal(err)
			}
			if _, err := d.receiver.Read(make([]byte, 1500)); err != nil {
				break
			}
		}
		counts := n.Stop()
		t.Logf("%d of %d came; %+v", came, count, counts)
		// 20 fit; while the sender was interrupted, more left.
		if came < 20 || counts.Up.Full == 0 || int(counts.Up.Full)+came != count {
			t.Errorf("%d came and %d were dropped, of %d", came, counts.Up.Full, count)
		}
	}
}

// Each engine carries a stream whole, and says which it is.
func TestEachEngineCarriesAStream(t *testing.T) {
	for _, test := range []struct {
		settings Settings
		engine   Engine
		needs    func() error
	}{
		{Settings{MTU: 1500}, Direct, nil},
		{Settings{Emulated: true}, Frames, nil},
		{Settings{Emulated: true, MTU: 9000}, Frames, nil},
		{Settings{MTU: 600, Up: record.Way{DelayNS: int64(time.Millisecond), Loss: 0.001}}, Frames, nil},
		{Settings{Up: record.Way{Rate: 1_000_000_000}}, TBF, tryTBF},
		{Settings{Up: record.Way{DelayNS: int64(time.Millisecond)}, Down: record.Way{DelayNS: int64(time.Millisecond)}}, Netem, tryNetem},
	} {
		t.Run(string(test.engine), func(t *testing.T) {
			n := newNetwork(t, test.settings)
			if test.needs != nil {
				if err := test.needs(); errors.Is(err, host.ErrUnsupported) {
					t.Skip(err)
				} else if err != nil {
					t.Fatal(err)
				}
			}
			const bytes = 1 << 20
			transfer(t, n, bytes)
			counts := n.Stop()
			t.Logf("%+v", counts)
			if counts.Engine != string(test.engine) {
				t.Errorf("%s carried it, want %s", counts.Engine, test.engine)
			}
			up, down := counts.Up, counts.Down
			if up.Bytes < bytes || up.Sent == 0 || down.Frames == 0 || up.Overrun+down.Overrun > 0 {
				t.Errorf("too little was counted: %+v", counts)
			}
			// Some are on their way, and the kernel's counts are read one after the other.
			if off := up.Frames - up.Sent - up.Lost; off < -10 || off > 10 {
				t.Errorf("%d frames came and %d left: %+v", up.Frames, up.Sent, counts)
			}
			if (up.DelayP50NS != nil) != (test.engine == Frames) {
				t.Errorf("delay known: %v", up.DelayP50NS != nil)
			}
		})
	}
}

func TestAnMTUBoundsPackets(t *testing.T) {
	for _, s := range []Settings{{MTU: 1000}, {MTU: 9000, Emulated: true}, {Emulated: true}} {
		d := openDatagrams(t, newNetwork(t, s))
		raw, err := d.sender.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, syscall.IP_MTU_DISCOVER, syscall.IP_PMTUDISC_DO)
		}); err != nil {
			t.Fatal(err)
		}
		const headers = 28 // of IP and UDP
		if _, err := d.sender.Write(make([]byte, s.mtuOrDefault()-headers+1)); !errors.Is(err, syscall.EMSGSIZE) {
			t.Errorf("%+v: a packet of one byte more than the MTU: %v, want EMSGSIZE", s, err)
		}
		if _, err := d.sender.Write(make([]byte, s.mtuOrDefault()-headers)); err != nil {
			t.Errorf("%+v: a packet of the MTU: %v", s, err)
		}
		if err := d.receiver.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if size, err := d.receiver.Read(make([]byte, 10_000)); size != s.mtuOrDefault()-headers {
			t.Errorf("%+v: received %d bytes, %v", s, size, err)
		}
	}
}
