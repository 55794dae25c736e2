package link

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
)

const (
	// maxHeldFrames limits the frames that a direction holds: at 10 ms, some 10 Gbit/s.
	// Further frames are overruns.
	maxHeldFrames = 8192
	// maxTaken bounds the frames that a direction takes in before it checks for due frames.
	maxTaken = 64
	// maxWait bounds the time between two checks of whether a direction is to end.
	maxWait = 20 * time.Millisecond
)

// forwarder carries frames between two rings: a frame that comes to one ring leaves at the
// interface of the other.
type forwarder struct {
	rings      [2]*ring
	directions [2]*direction
	over       atomic.Bool
	running    sync.WaitGroup
}

// forward starts a forwarder. close ends it, and closes the rings.
//
// It raises GOMAXPROCS by two: a thread that returns from a system call needs a free Go
// processor, and threads that wait for a CPU may hold the others.
func forward(rings [2]*ring, s Settings) *forwarder {
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + len(rings))
	f := &forwarder{rings: rings}
	for i, path := range [2]record.Way{s.Up, s.Down} {
		d := &direction{
			from: rings[i], to: rings[1-i].socket, wake: newWake(time.Duration(path.DelayNS)),
			discipline: newDiscipline(path, s.Seed, i), slotBytes: s.mtu() + headerBytes,
			held: latency.NewRecorder(), late: latency.NewRecorder(),
		}
		d.slots, d.sizes = make([]byte, maxHeldFrames*d.slotBytes), make([]int, maxHeldFrames)
		for slot := range maxHeldFrames {
			d.spare = append(d.spare, maxHeldFrames-1-slot)
		}
		f.directions[i] = d
		f.running.Go(func() { d.run(&f.over) }) // ends with f.over
	}
	return f
}

// joinByFrames makes both ends' interfaces, with a forwarder between them.
func joinByFrames(between *namespace, two [2]end, s Settings) (carrier, error) {
	var rings []*ring
	err := between.do(func() error {
		for _, e := range two {
			outer, err := e.createVeth(s.mtu())
			if err != nil {
				return err
			}
			r, err := openRing(outer.Attrs().Index, s.mtu())
			if err != nil {
				return err
			}
			rings = append(rings, r)
		}
		return nil
	})
	for i, e := range two {
		if err == nil {
			err = e.setUp(two[1-i].address, two[1-i].inner.hardware)
		}
	}
	if err == nil {
		err = between.awaitOuter(two)
	}
	if err != nil {
		for _, r := range rings {
			err = errors.Join(err, r.close())
		}
		return nil, err
	}
	return forward([2]*ring(rings), s), nil
}

// close ends both directions, and then the rings.
func (f *forwarder) close() error {
	f.end()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) - len(f.rings))
	for _, d := range f.directions {
		d.held.Close()
		d.late.Close()
	}
	return errors.Join(f.rings[0].close(), f.rings[1].close())
}

func (f *forwarder) end() {
	f.over.Store(true)
	f.running.Wait()
}

// stop ends both directions and returns their counts.
func (f *forwarder) stop() (up, down record.LinkWay, _ error) {
	f.end()
	return f.directions[0].count(), f.directions[1].count(), nil
}

// A direction is one way of a link. While it runs, only its own thread uses it.
type direction struct {
	from       *ring
	to         int // the socket that sends the frames
	discipline *discipline
	wake       wake
	slots      []byte // the frames that are held, slotBytes each
	slotBytes  int
	sizes      []int // size of the frame in each slot
	spare      []int // slots without a frame
	held, late *latency.Recorder
	refused    int64 // frames that could not be sent
	dropped    int64 // frames that found no room in the ring
}

// count returns the direction's counts.
func (d *direction) count() record.LinkWay {
	d.dropped += d.from.drops()
	c := d.discipline.counts
	c.Frames += d.dropped
	c.Sent -= d.refused
	c.Overrun += d.dropped + d.refused
	if held, late := latency.NewHistogram(d.held), latency.NewHistogram(d.late); held.Count() > 0 {
		c.DelayP50NS, c.DelayP99NS = new(int64(held.Quantile(0.5))), new(int64(held.Quantile(0.99)))
		c.LateP50NS, c.LateP99NS = new(int64(late.Quantile(0.5))), new(int64(late.Quantile(0.99)))
	}
	return c
}

// run forwards until it is over.
func (d *direction) run(over *atomic.Bool) {
	runtime.LockOSThread() // and never unlocked: the thread ends here
	// Real-time priority: otherwise frames would be late by the time slices of
	// the workers. If it is refused, LateP99 shows the effect.
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	for !over.Load() {
		d.from.take(maxTaken, d.admit)
		d.release()
		d.wait()
	}
}

// admit takes a frame in, unless it is lost or finds no room.
func (d *direction) admit(frame []byte, arrived int64) {
	if len(d.spare) == 0 || len(frame) > d.slotBytes {
		d.discipline.overrun(len(frame))
		return
	}
	slot := d.spare[len(d.spare)-1]
	if d.discipline.admit(arrived, len(frame), slot) != held {
		return
	}
	d.spare = d.spare[:len(d.spare)-1]
	d.sizes[slot] = copy(d.slots[slot*d.slotBytes:][:d.slotBytes], frame)
}

// release sends all frames that are due.
func (d *direction) release() {
	for {
		now := clock.Now()
		frame, ok := d.discipline.depart(now)
		if !ok {
			return
		}
		d.held.Record(now - frame.arrived)
		d.late.Record(now - frame.due)
		bytes := d.slots[frame.slot*d.slotBytes:][:d.sizes[frame.slot]]
		d.send(bytes)
		if frame.twice {
			d.send(bytes)
		}
		d.spare = append(d.spare, frame.slot)
	}
}

// send drops a frame if the other side has no room for it, as a real network does.
func (d *direction) send(frame []byte) {
	if unix.Send(d.to, frame, 0) != nil {
		d.refused++
	}
}

// wait returns when a frame comes or the next is due.
func (d *direction) wait() {
	now := clock.Now()
	until, timed := now+int64(maxWait), false
	if due, ok := d.discipline.next(); ok && due < until {
		until, timed = due-d.wake.early(), true
	}
	if until > now {
		timeout := unix.NsecToTimespec(until - now)
		came, _ := unix.Ppoll([]unix.PollFd{{Fd: int32(d.from.socket), Events: unix.POLLIN}}, &timeout, nil)
		if timed && came == 0 {
			d.wake.slept(clock.Now() - until)
		}
	}
	// Spin for frames that are due within the wake's margin.
	for due, ok := d.discipline.next(); ok; {
		now := clock.Now()
		if due <= now || due-now > d.wake.early() {
			return
		}
	}
}

// ringBytes is the memory for frames that come while the forwarder does not run. Unlike a
// socket's buffer, net.core.rmem_max does not bound it.
const ringBytes = 8 << 20

// A ring is a packet(7) socket whose frames the kernel writes into shared memory (PACKET_RX_RING,
// TPACKET_V2; V3 hands frames over in blocks, milliseconds late). One thread may use it at a time.
type ring struct {
	socket    int
	memory    []byte
	slotBytes int
	next      int   // the slot that the kernel fills next
	offset    int64 // offset of the wall clock, with which the kernel stamps frames
	latest    int64 // instant of the latest frame
}

// openRing opens a ring for the frames that come in at an interface, without those that go out.
func openRing(index, mtu int) (r *ring, err error) {
	protocol := uint16(unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8) // in network byte order
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, explainRefusal("open a packet socket", err)
	}
	r = &ring{socket: socket, slotBytes: 2048}
	// The kernel writes, before a frame, its header and the sender's address, and up to 16
	// bytes for alignment (tpacket_rcv of net/packet/af_packet.c).
	const before = unix.SizeofTpacket2Hdr + unix.SizeofSockaddrLinklayer + 2*16
	for r.slotBytes < before+headerBytes+mtu {
		r.slotBytes *= 2
	}
	block := max(128<<10, r.slotBytes)
	request := unix.TpacketReq{
		Block_size: uint32(block), Block_nr: uint32(ringBytes / block),
		Frame_size: uint32(r.slotBytes), Frame_nr: uint32(ringBytes / r.slotBytes),
	}
	err = errors.Join(
		unix.SetsockoptInt(socket, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(socket, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2),
		unix.SetsockoptTpacketReq(socket, unix.SOL_PACKET, unix.PACKET_RX_RING, &request),
	)
	if err == nil {
		r.memory, err = unix.Mmap(socket, 0, ringBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err == nil {
		err = unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: index})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set a packet socket up: %w", err), r.close())
	}
	return r, nil
}

func (r *ring) close() error {
	var err error
	if r.memory != nil {
		err = unix.Munmap(r.memory)
	}
	return errors.Join(err, unix.Close(r.socket))
}

// take passes up to most frames to use, each with the instant at which it came, which never goes
// backwards. The bytes are valid until use returns.
func (r *ring) take(most int, use func(frame []byte, arrived int64)) {
	now := r.compareClocks()
	for range most {
		slot := r.memory[r.next*r.slotBytes:][:r.slotBytes]
		header := (*unix.Tpacket2Hdr)(unsafe.Pointer(&slot[0]))
		if atomic.LoadUint32(&header.Status)&unix.TP_STATUS_USER == 0 {
			return
		}
		came := int64(header.Sec)*1e9 + int64(header.Nsec) - r.offset
		if came > now || came < now-int64(time.Second) {
			came = now // it came after the comparison, or the wall clock was set
		}
		r.latest = max(r.latest, came)
		use(slot[header.Mac:][:header.Snaplen], r.latest)
		atomic.StoreUint32(&header.Status, unix.TP_STATUS_KERNEL)
		r.next = (r.next + 1) % (len(r.memory) / r.slotBytes)
	}
}

// compareClocks returns the present instant and updates the wall clock's offset, unless the
// thread was interrupted meanwhile.
func (r *ring) compareClocks() int64 {
	const narrow = int64(5 * time.Microsecond)
	before := clock.Now()
	wall := time.Now().UnixNano()
	after := clock.Now()
	if after-before < narrow || r.offset == 0 {
		r.offset = wall - before
	}
	return after
}

// drops returns the number of frames without room since its last call.
func (r *ring) drops() int64 {
	statistics, err := unix.GetsockoptTpacketStats(r.socket, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0
	}
	return int64(statistics.Drops)
}
