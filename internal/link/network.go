package link

import (
	"errors"
	"time"

	"wirelab.dev/internal/host"
)

// Settings describe a network. A zero value leaves the kernel's default for a new
// namespace, unless the field says otherwise.
type Settings struct {
	// Ports is the number of local ports for connections to one server.
	Ports int
	// TimeWaitReuse lets a loopback connection take over the ports of a closed one
	// after a second, which is Linux's default. Without it, they stay in use for a
	// minute.
	TimeWaitReuse bool
	// Delay is the delay of a packet, each way. 0: both ends use the same
	// loopback.
	Delay time.Duration
	// Loss is the share of packets that a link with a delay drops, each way.
	Loss float64
}

// Network is where a server and its client run. Its methods may be called from
// any goroutine, except for the functions that Server and Client return.
type Network struct {
	// Address is the IP address at which the server is to listen.
	Address string

	server, client *namespace // the same one without a delay
	forwarder      *forwarder // nil without a delay
}

// New makes a network. If the machine refuses, the error wraps
// host.ErrUnsupported.
func New(s Settings) (*Network, error) {
	if s.Delay > 0 {
		return newDelayed(s)
	}
	only, err := newNamespace(s)
	if err != nil {
		return nil, err
	}
	return &Network{Address: "127.0.0.1", server: only, client: only}, nil
}

// EnterServer moves the calling thread to the server's end. It must be locked
// to its goroutine, and end with it.
func (n *Network) EnterServer() error { return n.server.enter() }

// EnterClient moves the calling thread to the client's end, as EnterServer does.
func (n *Network) EnterClient() error { return n.client.enter() }

// InClient calls a function on a thread at the client's end, and waits for it.
func (n *Network) InClient(do func()) error {
	return host.OnDisposableThread(func() error {
		if err := n.EnterClient(); err != nil {
			return err
		}
		do()
		return nil
	})
}

// Forwarded holds the counts of a link with a delay.
type Forwarded struct {
	Frames           int64
	LateP50, LateP99 time.Duration // how much later than due they were sent
	Dropped          int64         // because a buffer was full
	Lost             int64         // as Settings.Loss asks
}

// Stop ends the link and returns its counts. delayed is false without a delay.
func (n *Network) Stop() (stats Forwarded, delayed bool) {
	if n.forwarder == nil {
		return Forwarded{}, false
	}
	return n.forwarder.stop(), true
}

// Close closes the network. It goes on until the processes in it have ended.
func (n *Network) Close() error {
	var errs []error
	if n.forwarder != nil {
		errs = append(errs, n.forwarder.close())
	}
	errs = append(errs, n.server.close())
	if n.client != n.server {
		errs = append(errs, n.client.close())
	}
	return errors.Join(errs...)
}
