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

// newLink makes a namespace for server and client each, and connects them with an engine.
func newLink(s Settings) (n *Network, err error) {
	n = &Network{engine: s.chooseEngine(kernelHas), seed: s.Seed}
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
	two := newEnds(n.client, n.server)
	n.Address = two[1].address.String()
	if n.engine == Direct {
		n.carrier, err = joinDirectly(two, s.mtuOrDefault())
		return n, err
	}
	between, err := newNamespace(Settings{})
	if err != nil {
		return n, err
	}
	if n.engine == Frames {
		n.carrier, err = joinByForwarder(between, two, s)
		// The namespace's file can be closed, because the forwarder's sockets keep the namespace.
		return n, errors.Join(err, between.close())
	}
	n.carrier, err = joinByKernelQueues(between, two, n.engine, s)
	return n, err
}

func kernelHas(engine Engine) bool {
	switch engine {
	case TBF:
		return tryTBF() == nil
	case Netem:
		return tryNetem() == nil
	}
	return true
}

// Results of trying the kernel's engines, at most once per process.
var (
	tryTBF   = sync.OnceValue(func() error { return tryQueue(TBF, record.Way{Rate: 1_000_000}) })
	tryNetem = sync.OnceValue(func() error { return tryQueue(Netem, record.Way{DelayNS: int64(time.Millisecond)}) })
)

// tryQueue adds the engine's queueing discipline to the loopback of a temporary namespace. Only
// this attempt shows whether the kernel has the engine, because the kernel loads modules on demand.
func tryQueue(engine Engine, p record.Way) error {
	try, err := newNamespace(Settings{})
	if err != nil {
		return err
	}
	err = try.runInside(func() error {
		loopback, err := netlink.LinkByName("lo")
		if err != nil {
			return fmt.Errorf("find the loopback interface: %w", err)
		}
		if err := netlink.QdiscAdd(newQdisc(engine, p, DefaultMTU, loopback)); err != nil {
			return fmt.Errorf("add the queueing discipline %s: %w (%w): use a kernel with CONFIG_NET_SCH_%s", engine, err, host.ErrUnsupported, strings.ToUpper(string(engine)))
		}
		return nil
	})
	return errors.Join(err, try.close())
}

func newQdisc(engine Engine, p record.Way, mtu int, at netlink.Link) netlink.Qdisc {
	attributes := netlink.QdiscAttrs{LinkIndex: at.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
	if engine == Netem {
		return netlink.NewNetem(attributes, netlink.NetemQdiscAttrs{
			Latency: uint32(p.DelayNS / 1000), Limit: maxHeldFrames,
		})
	}
	bytesPerSecond := uint64(p.Rate) / 8
	// The bucket limits how many bytes may leave at once: two frames. At high rates it holds the
	// bytes of one millisecond, because the kernel counts its time in microseconds.
	bucket := max(2*uint32(mtu+headerBytes), uint32(bytesPerSecond/1000))
	return &netlink.Tbf{
		QdiscAttrs: attributes, Rate: bytesPerSecond, Limit: uint32(queueBytes(p)),
		Buffer: netlink.Xmittime(bytesPerSecond, bucket),
	}
}

// A barePair is a link of two interfaces that are connected directly.
type barePair struct{ ends [2]linkEnd }

func joinDirectly(two [2]linkEnd, mtu int) (carrier, error) {
	client, server := two[0], two[1]
	client.outer = server.inner
	err := server.namespace.runInside(func() error {
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
	return &barePair{[2]linkEnd{client, server}}, nil
}

func (b *barePair) stop() (up, down record.LinkWay, err error) {
	client, server := b.ends[0], b.ends[1]
	err = client.namespace.runInside(func() error { return readInterfaceCounts(client.inner.name, &down, &up) })
	if err == nil {
		err = server.namespace.runInside(func() error { return readInterfaceCounts(server.inner.name, &up, &down) })
	}
	return up, down, err
}

func (*barePair) close() error { return nil } // the interfaces disappear with their namespaces

// readInterfaceCounts reads an interface's statistics. It adds received frames to in, and sent
// frames to out.
func readInterfaceCounts(name string, in, out *record.LinkWay) error {
	at, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("count the frames of interface %s: %w", name, err)
	}
	statistics := at.Attrs().Statistics
	in.Sent = int64(statistics.RxPackets)
	out.Frames, out.Bytes = int64(statistics.TxPackets), int64(statistics.TxBytes)
	return nil
}

// A kernelQueues is a link with the kernel's queueing disciplines, in a namespace between server
// and client. In the server's or client's own namespace they would never drop packets, because TCP
// would wait (TCP small queues).
type kernelQueues struct {
	between *namespace
	ends    [2]linkEnd
}

func joinByKernelQueues(between *namespace, two [2]linkEnd, engine Engine, s Settings) (carrier, error) {
	q := &kernelQueues{between, two}
	err := between.runInside(func() error {
		for name, value := range map[string]string{"ip_forward": "1", "conf/all/rp_filter": "0", "conf/default/rp_filter": "0"} {
			if err := setIPv4(name, value); err != nil {
				return err
			}
		}
		// two[0] is the client. The queue before the client delays the frames from the server.
		for i, path := range [2]record.Way{s.Down, s.Up} {
			if err := two[i].setUpQueue(engine, path, s.mtuOrDefault()); err != nil {
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

// setUpQueue sets up the interfaces of the server or client, the route to it and the queue.
func (e linkEnd) setUpQueue(engine Engine, p record.Way, mtu int) error {
	outer, err := e.createVeth(mtu)
	if err != nil {
		return err
	}
	route := &netlink.Route{LinkIndex: outer.Attrs().Index, Dst: netlink.NewIPNet(e.address), Scope: netlink.SCOPE_LINK}
	if err := netlink.RouteAdd(route); err != nil {
		return explainRefusal("add a route to interface "+e.inner.name, err)
	}
	if err := addNeighbour(outer, e.address, e.inner.hardware); err != nil {
		return explainRefusal("add the hardware address of interface "+e.inner.name, err)
	}
	if !changesPackets(p) {
		return nil
	}
	if err := netlink.QdiscAdd(newQdisc(engine, p, mtu, outer)); err != nil {
		return explainRefusal("add the queueing discipline "+string(engine), err)
	}
	return nil
}

// stop reads the counts. The link continues to work until its namespaces end.
func (q *kernelQueues) stop() (up, down record.LinkWay, err error) {
	err = q.between.runInside(func() error {
		return errors.Join(q.ends[0].readQueueCounts(&up, &down), q.ends[1].readQueueCounts(&down, &up))
	})
	return up, down, err
}

func (e linkEnd) readQueueCounts(from, to *record.LinkWay) error {
	outer, err := netlink.LinkByName(e.outer.name)
	if err != nil {
		return fmt.Errorf("count the frames of interface %s: %w", e.outer.name, err)
	}
	statistics := outer.Attrs().Statistics
	from.Frames, from.Bytes = int64(statistics.RxPackets), int64(statistics.RxBytes)
	to.Sent = int64(statistics.TxPackets)
	all, err := netlink.QdiscList(outer)
	if err != nil {
		return fmt.Errorf("count the frames that the queue of interface %s dropped: %w", e.outer.name, err)
	}
	for _, qdisc := range all {
		if s := qdisc.Attrs().Statistics; s != nil && s.Queue != nil && qdisc.Attrs().Parent == netlink.HANDLE_ROOT {
			to.Full += int64(s.Queue.Drops)
		}
	}
	return nil
}

func (q *kernelQueues) close() error { return q.between.close() }
