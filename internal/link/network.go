package link

import (
	"errors"
	"time"
)

// Settings say what is special about a network. A value that is zero is left as
// the kernel has it in a fresh namespace, unless it says otherwise.
type Settings struct {
	// Ports is how many local ports there are for connections to one server.
	Ports int
	// TimeWaitReuse lets a connection on loopback take over, after a second,
	// the ports of one that was closed: as Linux has it. Without it, they are
	// held for a minute.
	TimeWaitReuse bool
	// Delay is how long a packet takes from one end to the other, each way. 0:
	// both ends are on the same loopback.
	Delay time.Duration
}

// Network is where a server and its client run. Its methods may be called from
// any goroutine, except for the functions that Server and Client return.
type Network struct {
	// Address is the IP address at which the server is to listen.
	Address string

	server, client *namespace // the same one where there is no link
	forwarder      *forwarder // nil where there is none
}

// New makes a network. What the machine refuses wraps host.ErrUnsupported.
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
	return onDoomedThread(func() error {
		if err := n.EnterClient(); err != nil {
			return err
		}
		do()
		return nil
	})
}

// Forwarded is what a link with a delay did.
type Forwarded struct {
	Frames           int64
	LateP50, LateP99 time.Duration // how much later than due they were sent
	Dropped          int64         // for want of room
}

// Stop ends the link and says what it did. Without a delay there is nothing to
// say.
func (n *Network) Stop() (said Forwarded, delayed bool) {
	if n.forwarder == nil {
		return Forwarded{}, false
	}
	return n.forwarder.stop(), true
}

// Close gives the network up. It lives on until the processes in it have ended.
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
