package link

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"wirelab.dev/internal/data/record"
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
	// Up is the way from client to server, Down the way back. Bursts of losses are E. N. Gilbert's
	// ("Capacity of a Burst-Noise Channel", 1960): after each packet the link turns bad, or good
	// again, with a fixed probability, and packets that come while it is bad are lost.
	Up, Down record.Way
	// MTU is the longest IP packet of a link, in bytes. 0: 1500. An MTU alone makes a
	// link that does nothing else: a bare pair of interfaces.
	MTU int
	// Seed decides the fate of each packet, by its number in each direction: the same
	// seed loses and delays the same ones.
	Seed uint64
}

// Bounds of the queue of a path that names none. An emulator could not hold more than
// the upper one.
const (
	leastDefaultQueue = 32 << 10
	mostDefaultQueue  = 8 << 20
)

// queueBytes returns the queue of a path: if it names none, what the rate carries in 100 ms.
func queueBytes(p record.Way) int {
	if p.QueueBytes > 0 {
		return p.QueueBytes
	}
	const bitsIn100ms = 8 * 10
	return int(min(max(p.Rate/bitsIn100ms, leastDefaultQueue), mostDefaultQueue))
}

// linked reports whether the settings ask for a link between two namespaces.
func (s Settings) linked() bool { return s.Emulated || s.MTU != 0 || acts(s.Up) || acts(s.Down) }

// acts reports whether the path does anything to a packet.
func acts(p record.Way) bool {
	p.QueueBytes, p.BurstPackets = 0, 0
	return p != record.Way{}
}

// MTUs that a link can have: the least that every IPv4 host takes (RFC 1122, section
// 3.3.3), and jumbo frames.
const (
	DefaultMTU = 1500
	leastMTU   = 576
	mostMTU    = 9000
)

// mtu returns the MTU with its default filled in.
func (s Settings) mtu() int { return cmp.Or(s.MTU, DefaultMTU) }

// check returns an error for settings that no link can have.
func (s Settings) check() error {
	var errs []error
	if s.MTU != 0 && (s.MTU < leastMTU || s.MTU > mostMTU) {
		errs = append(errs, fmt.Errorf("an MTU of %d: choose %d to %d", s.MTU, leastMTU, mostMTU))
	}
	for i, path := range []record.Way{s.Up, s.Down} {
		if err := check(path, s.mtu()); err != nil {
			errs = append(errs, fmt.Errorf("the link's way %s: %w", []string{"up", "down"}[i], err))
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

func check(p record.Way, mtu int) error {
	var errs []error
	refuse := func(found string, args ...any) { errs = append(errs, fmt.Errorf(found, args...)) }
	delay, jitter := time.Duration(p.DelayNS), time.Duration(p.JitterNS)
	if delay < 0 || delay > mostDelay {
		refuse("a delay of %v: choose 0 to %v", delay, mostDelay)
	}
	if jitter < 0 || jitter > delay {
		refuse("a jitter of %v: choose 0 to the delay, which is %v", jitter, delay)
	}
	for _, share := range []struct {
		name  string
		value float64
	}{{"loss", p.Loss}, {"burst loss", p.BurstLoss}, {"reordering", p.Reorder}, {"duplication", p.Duplicate}} {
		if !(share.value >= 0 && share.value < 1) {
			refuse("a share of %v for %s: choose 0 to below 1", share.value, share.name)
		}
	}
	switch {
	case p.BurstLoss == 0:
	case !(p.BurstPackets >= 1):
		refuse("bursts of %v packets: choose 1 or more", p.BurstPackets)
	case p.BurstLoss > p.BurstPackets/(p.BurstPackets+1):
		// A run ends and the next begins one packet later, and still too few are lost.
		refuse("a burst loss of %v in runs of %v packets: choose a smaller share, or longer runs", p.BurstLoss, p.BurstPackets)
	}
	if p.Rate < 0 || p.Rate > 0 && p.Rate < leastRate {
		refuse("a rate of %d bits per second: choose 0 for none, or at least %d", p.Rate, leastRate)
	}
	if least := mtu + headerBytes; p.QueueBytes < 0 || p.QueueBytes > 0 && p.QueueBytes < least {
		refuse("a queue of %d bytes: choose 0 for the default, or at least one frame, %d", p.QueueBytes, least)
	}
	return errors.Join(errs...)
}
