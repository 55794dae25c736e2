package link

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
)

// newLink makes a namespace for each end, and joins them with the engine for the settings.
func newLink(s Settings) (n *Network, err error) {
	n = &Network{engine: s.choose(kernelHas), seed: s.Seed}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
			n = nil
		}
	}()
	if n.server, err = newNamespace(s); err != nil {
		return n, err
	}
	if n.client, err = newNamespace(s); err != nil {
		return n, err
	}
	two := ends(n.client, n.server)
	n.Address = two[1].address.String()
	if n.engine == Direct {
		n.carrier, err = joinBare(two, s.mtu())
		return n, err
	}
	between, err := newNamespace(Settings{})
	if err != nil {
		return n, err
	}
	if n.engine == Frames {
		n.carrier, err = joinByFrames(between, two, s)
		// It ends with the last of the forwarder's sockets.
		return n, errors.Join(err, between.close())
	}
	n.carrier, err = joinByQueues(between, two, n.engine, s)
	return n, err
}

// kernelHas reports whether the kernel has an engine.
func kernelHas(engine Engine) bool {
	switch engine {
	case TBF:
		return tryTBF() == nil
	case Netem:
		return tryNetem() == nil
	}
	return true
}

// The kernel's engines are tried once per process.
var (
	tryTBF   = sync.OnceValue(func() error { return tryQueue(TBF, record.Way{Rate: 1_000_000}) })
	tryNetem = sync.OnceValue(func() error { return tryQueue(Netem, record.Way{DelayNS: int64(time.Millisecond)}) })
)

// tryQueue adds a queueing discipline to the loopback of a namespace that ends at once.
// There is no other way to know: a module may be missing, or loaded on demand.
func tryQueue(engine Engine, p record.Way) error {
	try, err := newNamespace(Settings{})
	if err != nil {
		return err
	}
	err = try.do(func() error {
		loopback, err := netlink.LinkByName("lo")
		if err != nil {
			return fmt.Errorf("find the loopback: %w", err)
		}
		if err := netlink.QdiscAdd(queueOf(engine, p, DefaultMTU, loopback)); err != nil {
			return fmt.Errorf("add %s: %w (%w): it needs a kernel with CONFIG_NET_SCH_%s", engine, err, host.ErrUnsupported, strings.ToUpper(string(engine)))
		}
		return nil
	})
	return errors.Join(err, try.close())
}

// queueOf returns the queueing discipline for a path.
func queueOf(engine Engine, p record.Way, mtu int, at netlink.Link) netlink.Qdisc {
	attributes := netlink.QdiscAttrs{LinkIndex: at.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
	if engine == Netem {
		return netlink.NewNetem(attributes, netlink.NetemQdiscAttrs{
			Latency: uint32(p.DelayNS / 1000), Limit: maxHeldFrames,
		})
	}
	bytesPerSecond := uint64(p.Rate) / 8
	// The bucket limits the bytes that may leave at once: two frames, or, at high rates, the bytes
	// of a millisecond, since the kernel counts in microseconds.
	bucket := max(2*uint32(mtu+headerBytes), uint32(bytesPerSecond/1000))
	return &netlink.Tbf{
		QdiscAttrs: attributes, Rate: bytesPerSecond, Limit: uint32(queueBytes(p)),
		Buffer: netlink.Xmittime(bytesPerSecond, bucket),
	}
}

// A barePair is a link of two interfaces and nothing between.
type barePair struct{ ends [2]end }

func joinBare(two [2]end, mtu int) (carrier, error) {
	client, server := two[0], two[1]
	client.outer = server.inner
	err := server.namespace.do(func() error {
		_, err := client.createVeth(mtu)
		return err
	})
	if err == nil {
		err = client.setUp(server.address, server.inner.hardware)
	}
	if err == nil {
		err = server.setUp(client.address, client.inner.hardware)
	}
	if err != nil {
		return nil, err
	}
	return &barePair{[2]end{client, server}}, nil
}

func (b *barePair) stop() (up, down record.LinkWay, err error) {
	client, server := b.ends[0], b.ends[1]
	err = client.namespace.do(func() error { return readPort(client.inner.name, &down, &up) })
	if err == nil {
		err = server.namespace.do(func() error { return readPort(server.inner.name, &up, &down) })
	}
	return up, down, err
}

func (*barePair) close() error { return nil } // the pair ends with its namespaces

// readPort reads an interface's counts: frames that came in arrived by one path, frames that went
// out leave by the other. From the far side, the two are exchanged.
func readPort(name string, in, out *record.LinkWay) error {
	at, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("count the frames of %s: %w", name, err)
	}
	statistics := at.Attrs().Statistics
	in.Sent = int64(statistics.RxPackets)
	out.Frames, out.Bytes = int64(statistics.TxPackets), int64(statistics.TxBytes)
	return nil
}

// queues is a link made of the kernel's queueing disciplines, in a namespace between the ends: at
// an end, TCP would hold back its packets instead of losing some (TCP small queues).
type queues struct {
	between *namespace
	ends    [2]end
}

func joinByQueues(between *namespace, two [2]end, engine Engine, s Settings) (carrier, error) {
	q := &queues{between, two}
	err := between.do(func() error {
		for name, value := range map[string]string{"ip_forward": "1", "conf/all/rp_filter": "0", "conf/default/rp_filter": "0"} {
			if err := setIPv4(name, value); err != nil {
				return err
			}
		}
		// Frames that leave for the client are on their way down.
		for i, path := range [2]record.Way{s.Down, s.Up} {
			if err := two[i].queue(engine, path, s.mtu()); err != nil {
				return err
			}
		}
		return nil
	})
	for i, e := range two {
		if err == nil {
			err = e.setUp(two[1-i].address, e.outer.hardware)
		}
	}
	if err == nil {
		err = between.awaitOuter(two)
	}
	if err != nil {
		return nil, errors.Join(err, between.close())
	}
	return q, nil
}

// queue makes the end's interfaces, the route to the end, and the queue before it.
func (e end) queue(engine Engine, p record.Way, mtu int) error {
	outer, err := e.createVeth(mtu)
	if err != nil {
		return err
	}
	route := &netlink.Route{LinkIndex: outer.Attrs().Index, Dst: netlink.NewIPNet(e.address), Scope: netlink.SCOPE_LINK}
	if err := netlink.RouteAdd(route); err != nil {
		return explainRefusal("route to "+e.inner.name, err)
	}
	if err := addNeighbour(outer, e.address, e.inner.hardware); err != nil {
		return explainRefusal("make "+e.inner.name+" a neighbour", err)
	}
	if !acts(p) {
		return nil
	}
	if err := netlink.QdiscAdd(queueOf(engine, p, mtu, outer)); err != nil {
		return explainRefusal("add "+string(engine), err)
	}
	return nil
}

// stop reads the counts. The link works until its namespaces end.
func (q *queues) stop() (up, down record.LinkWay, err error) {
	err = q.between.do(func() error {
		return errors.Join(q.ends[0].readQueue(&up, &down), q.ends[1].readQueue(&down, &up))
	})
	return up, down, err
}

// readQueue reads the counts of frames that came from the end, left for it, or were dropped.
func (e end) readQueue(from, to *record.LinkWay) error {
	outer, err := netlink.LinkByName(e.outer.name)
	if err != nil {
		return fmt.Errorf("count the frames of %s: %w", e.outer.name, err)
	}
	statistics := outer.Attrs().Statistics
	from.Frames, from.Bytes = int64(statistics.RxPackets), int64(statistics.RxBytes)
	to.Sent = int64(statistics.TxPackets)
	all, err := netlink.QdiscList(outer)
	if err != nil {
		return fmt.Errorf("count the drops of the queue of %s: %w", e.outer.name, err)
	}
	for _, qdisc := range all {
		if s := qdisc.Attrs().Statistics; s != nil && s.Queue != nil && qdisc.Attrs().Parent == netlink.HANDLE_ROOT {
			to.Full += int64(s.Queue.Drops)
		}
	}
	return nil
}

func (q *queues) close() error { return q.between.close() }
