package link

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"wirelab.dev/internal/clock"
	"wirelab.dev/internal/latency"
)

const (
	// frameBytes is the longest frame: an MTU of 1,500 with its Ethernet and
	// VLAN headers, and some room.
	frameBytes = 2048
	// maxHeldFrames is how many a direction holds back at most: at 10 ms, some
	// 10 Gbit/s. What comes beyond is dropped, and counted.
	maxHeldFrames = 8192
	// maxWait bounds how long a direction does not look whether it is to
	// end.
	maxWait = 20 * time.Millisecond
)

// forwarder carries frames between two sockets, each held back for the delay.
type forwarder struct {
	sockets    [2]int
	directions [2]*direction
	over       atomic.Bool
	running    sync.WaitGroup
}

// forward starts a forwarder. close ends it.
//
// It raises GOMAXPROCS by two: a thread that returns from a system call needs a
// free Go processor, and others may be held by threads that wait for a CPU.
func forward(sockets [2]int, s Settings) *forwarder {
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + len(sockets))
	f := &forwarder{sockets: sockets}
	for i, path := range [2]Path{s.Up, s.Down} {
		d := &direction{
			from: sockets[i], to: sockets[1-i], delay: int64(path.Delay),
			loss: path.Loss, random: rand.New(rand.NewPCG(s.Seed, uint64(i))),
			frames: make([]frame, maxHeldFrames), late: latency.NewRecorder(),
		}
		f.directions[i] = d
		f.running.Go(func() { d.run(&f.over) }) // ends with f.over
	}
	return f
}

// close ends both directions, and then the sockets.
func (f *forwarder) close() error {
	f.over.Store(true)
	f.running.Wait()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) - len(f.sockets))
	for _, d := range f.directions {
		d.late.Close()
	}
	return errors.Join(unix.Close(f.sockets[0]), unix.Close(f.sockets[1]))
}

// stop ends both directions and returns their counts.
func (f *forwarder) stop() Counts {
	f.over.Store(true)
	f.running.Wait()
	return Counts{Engine: Frames, Up: f.directions[0].counts(), Down: f.directions[1].counts()}
}

// direction is one way of a link. Only its own thread touches it while it runs.
type direction struct {
	from, to int
	delay    int64
	loss     float64
	random   *rand.Rand
	frames   []frame // a ring
	head     int     // the oldest
	held     int
	late     *latency.Recorder
	sent     int64
	dropped  int64
	lost     int64
}

// frame is one that is held back.
type frame struct {
	due   int64 // on the clock of package clock
	size  int
	bytes [frameBytes]byte
}

// counts returns what the direction did. It takes those of the socket, which the
// kernel then sets to zero.
func (d *direction) counts() PathCounts {
	late := latency.NewHistogram(d.late)
	overrun := d.dropped + d.socketDrops()
	return PathCounts{
		Frames: d.sent + d.lost + overrun, Sent: d.sent, Lost: d.lost, Overrun: overrun,
		LateP50: late.Quantile(0.5), LateP99: late.Quantile(0.99),
	}
}

// run forwards until it is over.
func (d *direction) run(over *atomic.Bool) {
	runtime.LockOSThread() // and never unlocked: the thread ends here
	// Real-time priority: otherwise frames would be late by the time slices of
	// the workers. If it is refused, LateP99 shows the effect.
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	for !over.Load() {
		d.receive()
		d.release()
		d.wait()
	}
}

// receive reads all frames that have arrived.
func (d *direction) receive() {
	for d.held < len(d.frames) {
		next := &d.frames[(d.head+d.held)%len(d.frames)]
		size, _, err := unix.Recvfrom(d.from, next.bytes[:], unix.MSG_TRUNC)
		if err != nil {
			return // EAGAIN: no more; any other error shows as frames that do not arrive
		}
		if size > frameBytes {
			d.dropped++
			continue
		}
		if d.loss > 0 && d.random.Float64() < d.loss {
			d.lost++
			continue
		}
		next.due, next.size = clock.Now()+d.delay, size
		d.held++
	}
}

// release sends all frames that are due. It drops a frame if the other side has no
// room for it, as a real network does.
func (d *direction) release() {
	for now := clock.Now(); d.held > 0 && d.frames[d.head].due <= now; now = clock.Now() {
		f := &d.frames[d.head]
		if err := unix.Send(d.to, f.bytes[:f.size], 0); err != nil {
			d.dropped++
		} else {
			d.sent++
			d.late.Record(now - f.due)
		}
		d.head = (d.head + 1) % len(d.frames)
		d.held--
	}
}

// wait returns when a frame comes or the next is due.
func (d *direction) wait() {
	timeoutNanos := int64(maxWait)
	if d.held > 0 {
		timeoutNanos = min(timeoutNanos, d.frames[d.head].due-clock.Now())
	}
	if timeoutNanos <= 0 {
		return
	}
	timeout := unix.NsecToTimespec(timeoutNanos)
	events := int16(unix.POLLIN)
	if d.held == len(d.frames) {
		events = 0 // there is no room for another one
	}
	_, _ = unix.Ppoll([]unix.PollFd{{Fd: int32(d.from), Events: events}}, &timeout, nil)
}

// socketDrops returns how many frames were dropped because the socket's buffer was
// full.
func (d *direction) socketDrops() int64 {
	statistics, err := unix.GetsockoptTpacketStats(d.from, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0
	}
	return int64(statistics.Drops)
}
