package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"wirelab.dev/internal/data/record"
)

// A Cost holds the delays that this machine adds to emulated links.
type Cost struct {
	// DirectNS and FramesNS are median TCP round trips of one byte without a delay or a rate.
	// DirectNS uses a bare pair of interfaces, FramesNS the forwarder.
	DirectNS time.Duration `json:"direct_ns"`
	FramesNS time.Duration `json:"frames_ns"`
	// LateP50NS and LateP99NS are percentiles of how late frames leave on a link with a delay of
	// TestDelay. The percentiles are zero if the kernel's netem delays frames, because netem does
	// not report lateness.
	LateP50NS time.Duration `json:"late_p50_ns"`
	LateP99NS time.Duration `json:"late_p99_ns"`
}

// TestDelay is the delay of the link on which MeasureCost measures how late frames leave.
const TestDelay = time.Millisecond

// MeasureCost takes less than two seconds on an idle machine. If this process cannot make networks,
// the error wraps host.ErrUnsupported.
func MeasureCost(ctx context.Context) (c Cost, err error) {
	delayed := record.Way{DelayNS: int64(TestDelay)}
	var all []*pingedNetwork
	defer func() {
		for _, p := range all {
			err = errors.Join(err, p.close())
		}
	}()
	for _, s := range []Settings{{MTU: DefaultMTU}, {Emulated: true}, {Up: delayed, Down: delayed}} {
		p, err := openPingedNetwork(ctx, s)
		all = append(all, p)
		if err != nil {
			return c, err
		}
	}
	// Alternate between the networks, so that other programs disturb all of them equally.
	const turns, inARow = 20, 10
	for range turns {
		for _, p := range all {
			if err := p.ping(inARow); err != nil {
				return c, err
			}
		}
	}
	c.DirectNS, c.FramesNS = all[0].median(), all[1].median()
	if up := all[2].network.Stop().Up; up.LateP50NS != nil {
		c.LateP50NS, c.LateP99NS = time.Duration(*up.LateP50NS), time.Duration(*up.LateP99NS)
	}
	return c, nil
}

// pingedNetwork is a network with a connection to a server that answers each byte.
type pingedNetwork struct {
	network *Network
	conn    net.Conn
	took    []time.Duration
	closers []io.Closer // in the order of opening; close closes them in reverse order
}

// openPingedNetwork makes a network. The caller must close the result even after an error.
func openPingedNetwork(ctx context.Context, s Settings) (*pingedNetwork, error) {
	p := &pingedNetwork{}
	network, err := New(s)
	if err != nil {
		return p, err
	}
	p.network, p.closers = network, []io.Closer{network}
	listener, err := network.listen(ctx)
	if err != nil {
		return p, err
	}
	p.closers = append(p.closers, listener)
	go serveEcho(listener) // ends when the connection or the listener is closed
	if p.conn, err = network.dial(ctx, listener.Addr().String()); err != nil {
		return p, err
	}
	p.closers = append(p.closers, p.conn)
	return p, nil
}

func serveEcho(listener net.Listener) {
	conn, err := listener.Accept()
	if err != nil {
		return
	}
	_, _ = io.Copy(conn, conn)
	_ = conn.Close() // the client has already closed its side
}

// pingTimeout limits the wait for one round trip, which takes milliseconds on an idle machine.
const pingTimeout = 10 * time.Second

func (p *pingedNetwork) ping(times int) error {
	one := make([]byte, 1)
	for range times {
		begin := time.Now()
		err := p.conn.SetDeadline(begin.Add(pingTimeout))
		if err == nil {
			_, err = p.conn.Write(one)
		}
		if err == nil {
			_, err = io.ReadFull(p.conn, one)
		}
		if err != nil {
			return fmt.Errorf("send a byte over a link and back: %w", err)
		}
		p.took = append(p.took, time.Since(begin))
	}
	return nil
}

func (p *pingedNetwork) median() time.Duration {
	slices.Sort(p.took)
	return p.took[len(p.took)/2]
}

func (p *pingedNetwork) close() error {
	var errs []error
	for _, c := range slices.Backward(p.closers) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// listen listens in the server's namespace. Any thread can use the listener afterwards, because a
// socket stays in the namespace in which it was made.
func (n *Network) listen(ctx context.Context) (listener net.Listener, err error) {
	err = n.server.runInside(func() (err error) {
		var config net.ListenConfig
		listener, err = config.Listen(ctx, "tcp4", net.JoinHostPort(n.Address, "0"))
		return err
	})
	return listener, err
}

// dial connects from the client's namespace. The address must have an IP address, because Go would
// look up a name on another thread.
func (n *Network) dial(ctx context.Context, address string) (conn net.Conn, err error) {
	err = n.client.runInside(func() (err error) {
		dialer := net.Dialer{Timeout: pingTimeout}
		conn, err = dialer.DialContext(ctx, "tcp4", address)
		return err
	})
	return conn, err
}
