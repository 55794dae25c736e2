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
	// maxHeldFrames limits the frames that wait in one direction. It suffices for 10 Gbit/s with a
	// delay of 10 ms. Further frames count as overruns.
	maxHeldFrames = 8192
	// maxFramesPerTake limits the frames that a direction receives before it sends again.
	maxFramesPerTake = 64
	// maxWait is the longest time after which a direction checks whether it should end.
	maxWait = 20 * time.Millisecond
)

// A forwarder copies frames between two interfaces. A frame that arrives in one ring leaves at the
// interface of the other ring.
type forwarder struct {
	rings      [2]*ring
	directions [2]*direction
	over       atomic.Bool
	running    sync.WaitGroup
}

// startForwarder starts a forwarder. close ends it and closes the rings.
//
// It raises GOMAXPROCS by two, one for each thread of the forwarder. A thread that returns from a
// system call needs a free Go processor, and waiting threads may occupy the other processors.
func startForwarder(rings [2]*ring, s Settings) *forwarder {
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + len(rings))
	f := &forwarder{rings: rings}
	for i, path := range [2]record.Way{s.Up, s.Down} {
		d := &direction{
			from: rings[i], to: rings[1-i].socket, wake: newWakeMargin(time.Duration(path.DelayNS)),
			discipline: newDiscipline(path, s.Seed, i), slotBytes: s.mtuOrDefault() + headerBytes,
			held: latency.NewRecorder(), late: latency.NewRecorder(),
		}
		d.slots, d.sizes = make([]byte, maxHeldFrames*d.slotBytes), make([]int, maxHeldFrames)
		for slot := range maxHeldFrames {
			d.spare = append(d.spare, maxHeldFrames-1-slot)
		}
		f.directions[i] = d
		f.running.Go(func() { d.run(&f.over) }) // ends when f.over is set
	}
	return f
}

func joinByForwarder(between *namespace, two [2]linkEnd, s Settings) (carrier, error) {
	var rings []*ring
	err := between.runInside(func() error {
		for _, e := range two {
			outer, err := e.createVeth(s.mtuOrDefault())
			if err != nil {
				return err
			}
			r, err := openRing(outer.Attrs().Index, s.mtuOrDefault())
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
	return startForwarder([2]*ring(rings), s), nil
}

func (f *forwarder) close() error {
	f.endDirections()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) - len(f.rings))
	for _, d := range f.directions {
		d.held.Close()
		d.late.Close()
	}
	return errors.Join(f.rings[0].close(), f.rings[1].close())
}

func (f *forwarder) endDirections() {
	f.over.Store(true)
	f.running.Wait()
}

func (f *forwarder) stop() (up, down record.LinkWay, _ error) {
	f.endDirections()
	return f.directions[0].totalCounts(), f.directions[1].totalCounts(), nil
}

// A direction forwards frames in one direction. Only the thread of run may use the fields.
type direction struct {
	from       *ring
	to         int // socket that sends the frames
	discipline *discipline
	wake       wakeMargin
	slots      []byte // bytes of the waiting frames, slotBytes per frame
	slotBytes  int
	sizes      []int // size of the frame in each slot
	spare      []int // free slots
	held, late *latency.Recorder
	refused    int64 // number of frames that the kernel refused to send
	dropped    int64 // number of frames for which the ring had no room
}

func (d *direction) totalCounts() record.LinkWay {
	d.dropped += d.from.countDrops()
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

func (d *direction) run(over *atomic.Bool) {
	runtime.LockOSThread() // never unlocked, so the thread ends with this goroutine
	// Without real-time priority, frames would wait until the workers' time slices end. If the
	// kernel refuses the priority, LateP99NS shows the effect.
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	for !over.Load() {
		d.from.takeFrames(maxFramesPerTake, d.admit)
		d.sendDueFrames()
		d.waitForFrame()
	}
}

func (d *direction) admit(frame []byte, arrived int64) {
	if len(d.spare) == 0 || len(frame) > d.slotBytes {
		d.discipline.countOverrun(len(frame))
		return
	}
	slot := d.spare[len(d.spare)-1]
	if d.discipline.admit(arrived, len(frame), slot) != frameHeld {
		return
	}
	d.spare = d.spare[:len(d.spare)-1]
	d.sizes[slot] = copy(d.slots[slot*d.slotBytes:][:d.slotBytes], frame)
}

func (d *direction) sendDueFrames() {
	for {
		now := clock.Now()
		frame, ok := d.discipline.takeDue(now)
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

// send sends a frame. It drops the frame if the kernel has no room, like a real network.
func (d *direction) send(frame []byte) {
	if unix.Send(d.to, frame, 0) != nil {
		d.refused++
	}
}

func (d *direction) waitForFrame() {
	now := clock.Now()
	until, timed := now+int64(maxWait), false
	if due, ok := d.discipline.nextDue(); ok && due < until {
		until, timed = due-d.wake.margin(), true
	}
	if until > now {
		timeout := unix.NsecToTimespec(until - now)
		came, _ := unix.Ppoll([]unix.PollFd{{Fd: int32(d.from.socket), Events: unix.POLLIN}}, &timeout, nil)
		if timed && came == 0 {
			d.wake.recordSleep(clock.Now() - until)
		}
	}
	// If the next frame is due within the margin, spin until then.
	for due, ok := d.discipline.nextDue(); ok; {
		now := clock.Now()
		if due <= now || due-now > d.wake.margin() {
			return
		}
	}
}

// ringBytes is the size of a ring, which holds the frames that arrive while the forwarder does not
// run. Unlike a socket's buffer, it may exceed net.core.rmem_max.
const ringBytes = 8 << 20

// A ring is a packet(7) socket. The kernel writes received frames into shared memory
// (PACKET_RX_RING). It uses TPACKET_V2, because V3 delivers frames in blocks, milliseconds late.
// Only one thread may use a ring at a time.
type ring struct {
	socket    int
	memory    []byte
	slotBytes int
	next      int // slot to read next
	// Wall clock minus monotonic clock, because the kernel's time stamps use the wall clock.
	offset int64
	latest int64 // arrival time of the latest frame
}

func openRing(index, mtu int) (r *ring, err error) {
	protocol := uint16(unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8) // in network byte order
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, explainRefusal("open a packet socket", err)
	}
	r = &ring{socket: socket, slotBytes: 2048}
	// Before each frame, the kernel writes a header, the sender's address, and padding of up to 16
	// bytes (tpacket_rcv in net/packet/af_packet.c).
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
		return nil, errors.Join(fmt.Errorf("configure a packet socket: %w", err), r.close())
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

// takeFrames calls use with at most most frames and their arrival times. The times never go
// backwards. The bytes are valid until use returns.
func (r *ring) takeFrames(most int, use func(frame []byte, arrived int64)) {
	now := r.compareClocks()
	for range most {
		slot := r.memory[r.next*r.slotBytes:][:r.slotBytes]
		header := (*unix.Tpacket2Hdr)(unsafe.Pointer(&slot[0]))
		if atomic.LoadUint32(&header.Status)&unix.TP_STATUS_USER == 0 {
			return
		}
		came := int64(header.Sec)*1e9 + int64(header.Nsec) - r.offset
		if came > now || came < now-int64(time.Second) {
			came = now // the frame is newer than compareClocks, or the wall clock was set
		}
		r.latest = max(r.latest, came)
		use(slot[header.Mac:][:header.Snaplen], r.latest)
		atomic.StoreUint32(&header.Status, unix.TP_STATUS_KERNEL)
		r.next = (r.next + 1) % (len(r.memory) / r.slotBytes)
	}
}

// compareClocks returns the current time. It also updates the offset of the wall clock, unless the
// thread was interrupted between the readings.
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

// countDrops returns the number of frames that the ring dropped since the previous call.
func (r *ring) countDrops() int64 {
	statistics, err := unix.GetsockoptTpacketStats(r.socket, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0
	}
	return int64(statistics.Drops)
}
