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

// Cost holds the delay that this machine adds to the links that it emulates.
type Cost struct {
	// Median round trips of a byte over TCP, on links without conditions: a bare pair of
	// interfaces, and the forwarder.
	DirectNS time.Duration `json:"direct_ns"`
	FramesNS time.Duration `json:"frames_ns"`
	// The lateness of a delay of CostDelay; zero if the delay came from the kernel's netem, whose
	// lateness is not measured.
	LateP50NS time.Duration `json:"late_p50_ns"`
	LateP99NS time.Duration `json:"late_p99_ns"`
}

// CostDelay is the delay whose lateness Cost holds.
const CostDelay = time.Millisecond

// MeasureCost takes less than two seconds on an idle machine. If this process may not make
// networks, or the machine cannot, the error wraps host.ErrUnsupported.
func MeasureCost(ctx context.Context) (c Cost, err error) {
	delayed := record.Way{DelayNS: int64(CostDelay)}
	var all []*pinged
	defer func() {
		for _, p := range all {
			err = errors.Join(err, p.close())
		}
	}()
	for _, s := range []Settings{{MTU: DefaultMTU}, {Emulated: true}, {Up: delayed, Down: delayed}} {
		p, err := openPinged(ctx, s)
		all = append(all, p)
		if err != nil {
			return c, err
		}
	}
	// In turns, so that other programs disturb all networks alike.
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

// pinged is a network with a connection to a server that answers each byte.
type pinged struct {
	network *Network
	conn    net.Conn
	took    []time.Duration
	closers []io.Closer // the last is closed first
}

// openPinged returns a network that must be closed, even after an error.
func openPinged(ctx context.Context, s Settings) (*pinged, error) {
	p := &pinged{}
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
	go echo(listener) // ends with the connection, or the listener
	if p.conn, err = network.dial(ctx, listener.Addr().String()); err != nil {
		return p, err
	}
	p.closers = append(p.closers, p.conn)
	return p, nil
}

// echo answers one connection with what it sends.
func echo(listener net.Listener) {
	conn, err := listener.Accept()
	if err != nil {
		return
	}
	_, _ = io.Copy(conn, conn)
	_ = conn.Close() // the other end has read its answer
}

// pingPatience limits the wait for one round trip: milliseconds, more on a busy machine.
const pingPatience = 10 * time.Second

// ping makes a number of round trips, one after the other.
func (p *pinged) ping(times int) error {
	one := make([]byte, 1)
	for range times {
		begin := time.Now()
		err := p.conn.SetDeadline(begin.Add(pingPatience))
		if err == nil {
			_, err = p.conn.Write(one)
		}
		if err == nil {
			_, err = io.ReadFull(p.conn, one)
		}
		if err != nil {
			return fmt.Errorf("a round trip over a link: %w", err)
		}
		p.took = append(p.took, time.Since(begin))
	}
	return nil
}

func (p *pinged) median() time.Duration {
	slices.Sort(p.took)
	return p.took[len(p.took)/2]
}

func (p *pinged) close() error {
	var errs []error
	for _, c := range slices.Backward(p.closers) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// listen listens at the server's end: a socket stays in the namespace that it was made in.
func (n *Network) listen(ctx context.Context) (listener net.Listener, err error) {
	err = n.server.do(func() (err error) {
		var config net.ListenConfig
		listener, err = config.Listen(ctx, "tcp4", net.JoinHostPort(n.Address, "0"))
		return err
	})
	return listener, err
}

// dial connects from the client's end. The address is an IP address and a port: a name
// would be looked up on another thread.
func (n *Network) dial(ctx context.Context, address string) (conn net.Conn, err error) {
	err = n.client.do(func() (err error) {
		dialer := net.Dialer{Timeout: pingPatience}
		conn, err = dialer.DialContext(ctx, "tcp4", address)
		return err
	})
	return conn, err
}
