package link

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"wirelab.dev/internal/base/clock"
)

// ringBytes is the memory for frames that come while the forwarder does not run.
// Unlike a socket's buffer, it is not bounded by net.core.rmem_max.
const ringBytes = 8 << 20

// A ring is a packet(7) socket whose frames the kernel writes into memory that it shares
// with this process (PACKET_RX_RING, TPACKET_V2). Not TPACKET_V3: it hands frames over
// in blocks, milliseconds late. One thread may use a ring at a time.
type ring struct {
	socket    int
	memory    []byte
	slotBytes int
	next      int   // the slot that the kernel fills next
	offset    int64 // of the wall clock, by which the kernel stamps frames
	latest    int64 // instant at which a frame came
}

// openRing opens a ring that sees what comes in at an interface, and not what goes out.
func openRing(index, mtu int) (r *ring, err error) {
	protocol := uint16(unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8) // in network byte order
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, explainRefusal("open a packet socket", err)
	}
	r = &ring{socket: socket, slotBytes: 2048}
	// What the kernel writes before a frame: its header and the sender's address, and
	// up to 16 bytes to align what follows (tpacket_rcv of net/packet/af_packet.c).
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

// take passes the frames that have come, up to a number, to use, each with the instant at
// which it came, which never goes backwards. The bytes are valid until use returns.
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

// compareClocks returns the present instant and learns the wall clock's offset, unless
// the thread was interrupted meanwhile.
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

// drops returns how many frames found no room since it was last asked.
func (r *ring) drops() int64 {
	statistics, err := unix.GetsockoptTpacketStats(r.socket, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0
	}
	return int64(statistics.Drops)
}
