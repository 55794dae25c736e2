package link

import (
	"errors"
	"fmt"
	"time"
)

// Settings describe a network. A zero value leaves the kernel's default for a new
// namespace, unless the field says otherwise. Without a link, both ends use the
// loopback of one namespace.
type Settings struct {
	// Ports is the number of local ports for connections to one server.
	Ports int
	// TimeWaitReuse lets a loopback connection take over the ports of a closed one
	// after a second, which is Linux's default. Without it, they stay in use for a
	// minute.
	TimeWaitReuse bool
	// Emulated makes a link that goes through an emulator even where Up and Down
	// are zero, so that the emulator's own cost can be measured.
	Emulated bool
	// Up is the way from client to server, Down the way back.
	Up, Down Path
	// MTU is the longest IP packet of a link, in bytes. 0: 1500. An MTU alone makes a
	// link that does nothing else: a bare pair of interfaces.
	MTU int
	// Seed decides the fate of each packet, by its number in each direction: the same
	// seed loses and delays the same ones.
	Seed uint64
}

// A Path says what a link does to the packets of one direction. The zero value does nothing.
type Path struct {
	Delay     time.Duration // of every packet
	Jitter    time.Duration // a packet's delay is spread evenly over Delay-Jitter to Delay+Jitter; the order is kept
	Loss      float64       // share of packets lost, each for itself
	Burst     Burst         // loss in runs
	Reorder   float64       // share of packets that later ones overtake
	Duplicate float64       // share of packets that come twice
	Rate      int64         // bits per second, Ethernet headers included; 0: unlimited
	Queue     int           // bytes that may wait for the rate; 0: what the rate carries in 100 ms
}

// A Burst describes loss in runs (E. N. Gilbert, "Capacity of a Burst-Noise Channel",
// 1960): after each packet the link turns bad, or good again, with a fixed probability,
// and packets that come while it is bad are lost.
type Burst struct {
	Loss    float64 // share of packets lost
	Packets float64 // mean length of a run, at least 1
}

// Bounds of the queue of a path that names none. An emulator could not hold more than
// the upper one.
const (
	leastDefaultQueue = 32 << 10
	mostDefaultQueue  = 8 << 20
)

// queueBytes returns the queue with its default filled in.
func (p Path) queueBytes() int {
	if p.Queue > 0 {
		return p.Queue
	}
	const bitsIn100ms = 8 * 10
	return int(min(max(p.Rate/bitsIn100ms, leastDefaultQueue), mostDefaultQueue))
}

// linked reports whether the settings ask for a link between two namespaces.
func (s Settings) linked() bool { return s.Emulated || s.MTU != 0 || s.Up.acts() || s.Down.acts() }

// acts reports whether the path does anything to a packet.
func (p Path) acts() bool {
	p.Queue, p.Burst.Packets = 0, 0
	return p != Path{}
}

// MTUs that a link can have: the least that every IPv4 host takes (RFC 1122, section
// 3.3.3), and jumbo frames.
const (
	DefaultMTU = 1500
	leastMTU   = 576
	mostMTU    = 9000
)

// mtu returns the MTU with its default filled in.
func (s Settings) mtu() int {
	if s.MTU == 0 {
		return DefaultMTU
	}
	return s.MTU
}

// check returns an error for settings that no link can have.
func (s Settings) check() error {
	var errs []error
	if s.MTU != 0 && (s.MTU < leastMTU || s.MTU > mostMTU) {
		errs = append(errs, fmt.Errorf("an MTU of %d: choose %d to %d", s.MTU, leastMTU, mostMTU))
	}
	for _, way := range []struct {
		name string
		path Path
	}{{"up", s.Up}, {"down", s.Down}} {
		if err := way.path.check(s.mtu()); err != nil {
			errs = append(errs, fmt.Errorf("the link's way %s: %w", way.name, err))
		}
	}
	return errors.Join(errs...)
}

// headerBytes is the length of an Ethernet header (ETH_HLEN of linux/if_ether.h).
const headerBytes = 14

// leastRate is the rate of an old modem. A frame takes seconds at less.
const leastRate = 9600

// mostDelay is about ten times the way to a geostationary satellite and back.
const mostDelay = 10 * time.Second

func (p Path) check(mtu int) error {
	var errs []error
	refuse := func(found string, args ...any) { errs = append(errs, fmt.Errorf(found, args...)) }
	if p.Delay < 0 || p.Delay > mostDelay {
		refuse("a delay of %v: choose 0 to %v", p.Delay, mostDelay)
	}
	if p.Jitter < 0 || p.Jitter > p.Delay {
		refuse("a jitter of %v: choose 0 to the delay, which is %v", p.Jitter, p.Delay)
	}
	for _, share := range []struct {
		name  string
		value float64
	}{{"loss", p.Loss}, {"burst loss", p.Burst.Loss}, {"reordering", p.Reorder}, {"duplication", p.Duplicate}} {
		if !(share.value >= 0 && share.value < 1) {
			refuse("a share of %v for %s: choose 0 to below 1", share.value, share.name)
		}
	}
	switch {
	case p.Burst.Loss == 0:
	case !(p.Burst.Packets >= 1):
		refuse("bursts of %v packets: choose 1 or more", p.Burst.Packets)
	case p.Burst.Loss > p.Burst.Packets/(p.Burst.Packets+1):
		// A run ends and the next begins one packet later, and still too few are lost.
		refuse("a burst loss of %v in runs of %v packets: choose a smaller share, or longer runs", p.Burst.Loss, p.Burst.Packets)
	}
	if p.Rate < 0 || p.Rate > 0 && p.Rate < leastRate {
		refuse("a rate of %d bits per second: choose 0 for none, or at least %d", p.Rate, leastRate)
	}
	if least := mtu + headerBytes; p.Queue < 0 || p.Queue > 0 && p.Queue < least {
		refuse("a queue of %d bytes: choose 0 for the default, or at least one frame, %d", p.Queue, least)
	}
	return errors.Join(errs...)
}
