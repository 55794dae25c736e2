package link

import (
	"errors"

	"wirelab.dev/internal/machine/host"
)

// A Network holds the namespaces of a server and its client. Its methods may be called
// from any goroutine, except for the functions that Server and Client return.
type Network struct {
	// Address is the IP address at which the server is to listen.
	Address string

	server, client *namespace // the same one without a link
	carrier        carrier    // nil without a link
	uncounted      error      // why Stop had no counts to return
}

// A carrier is the engine of a link.
type carrier interface {
	stop() (Counts, error) // once
	close() error
}

// New makes a network. If the machine refuses, the error wraps
// host.ErrUnsupported.
func New(s Settings) (*Network, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.linked() {
		return newLink(s)
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

// Stop ends the link, once, and returns what it did. linked is false without a link.
// What keeps the kernel from telling, Close returns.
func (n *Network) Stop() (counts Counts, linked bool) {
	if n.carrier == nil {
		return Counts{}, false
	}
	counts, n.uncounted = n.carrier.stop()
	return counts, true
}

// Close closes the network. It goes on until the processes in it have ended.
func (n *Network) Close() error {
	errs := []error{n.uncounted}
	if n.carrier != nil {
		errs = append(errs, n.carrier.close())
	}
	errs = append(errs, n.server.close())
	if n.client != n.server {
		errs = append(errs, n.client.close())
	}
	return errors.Join(errs...)
}
