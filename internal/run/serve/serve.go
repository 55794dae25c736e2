// Package serve runs a server for clients in other programs. The server is one of wirelab's own
// stacks, or a worker in another language.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/run/worker/body"
	"wirelab.dev/internal/wire/peer"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
)

// A Service describes a server to run.
type Service struct {
	Variant, Workload, Address string
	RootFile                   string // file for the clients' root certificate; may be empty
	// Ready is called with the server's address when the server listens.
	Ready func(address string) error
	// Progress gets lines about building a worker in another language.
	Progress io.Writer
}

// Listening says where a service listens.
type Listening struct {
	Stack    string `json:"stack"`    // the variant, as in h2:tls=on
	Workload string `json:"workload"` // the service
	Address  string `json:"address"`  // HOST:PORT
}

// ErrNoCertificate is wrapped by the error for RootFile if the server does not use TLS.
var ErrNoCertificate = errors.New("does not serve TLS, so it has no certificate")

// shutdownTimeout limits how long calls may still run after the service was asked to end.
const shutdownTimeout = 5 * time.Second

// writeRootCertificate writes the root certificate that clients must trust into RootFile.
func (s *Service) writeRootCertificate(pem []byte) error {
	if s.RootFile == "" {
		return nil
	}
	if len(pem) == 0 {
		return fmt.Errorf("--ca: %s %w: add --tls", s.Variant, ErrNoCertificate)
	}
	if err := os.WriteFile(s.RootFile, pem, 0o644); err != nil {
		return fmt.Errorf("--ca: %w", err)
	}
	return nil
}

// Run serves until ctx ends, and then lets running calls end. An error names the wrong flag.
func (s *Service) Run(ctx context.Context) error {
	if v, err := scenario.ParseVariant(s.Variant); err == nil {
		for _, peerOf := range []func(scenario.Variant) (peer.Peer, bool){catalog.ServerPeer, catalog.Carrier} {
			if p, foreign := peerOf(v); foreign {
				return s.runPeer(ctx, v, p)
			}
		}
	}
	server, err := body.NewServer(s.Variant, worker.Workload{Name: s.Workload}, nil)
	if err != nil {
		return err
	}
	address, err := server.Listen(ctx, s.Address)
	if err != nil {
		return fmt.Errorf("--addr %s: %w", s.Address, err)
	}
	var root []byte
	if secured, ok := server.(stack.TLSServer); ok {
		root = secured.RootPEM()
	}
	if err := s.writeRootCertificate(root); err != nil {
		return errors.Join(err, server.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve() }() // ends when the server is closed
	if err := s.Ready(address.String()); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	return server.Shutdown(ending)
}

// peerStartTimeout limits the time until a worker in another language listens.
const peerStartTimeout = 20 * time.Second

// runPeer serves with a worker in another language until ctx ends.
func (s *Service) runPeer(ctx context.Context, v scenario.Variant, p peer.Peer) error {
	path, err := p.Build(ctx, s.Progress)
	if err != nil {
		return err
	}
	process, err := worker.Start(worker.Launch{Name: "server " + s.Variant, Command: []string{path}, Spec: worker.Spec{
		Contract: worker.Contract, Role: worker.ServerRole, Stack: catalog.ForPeer(v, p, peer.Server).String(),
		Workload: worker.Workload{Name: s.Workload}, Address: s.Address,
	}})
	if err != nil {
		return err
	}
	defer process.Kill()
	starting, cancel := context.WithTimeoutCause(ctx, peerStartTimeout, fmt.Errorf("the server was not ready within %v", peerStartTimeout))
	defer cancel()
	ready, err := process.Ready(starting)
	if err != nil {
		return err
	}
	if err := s.writeRootCertificate([]byte(ready.RootPEM)); err != nil {
		return err
	}
	if err := s.Ready(ready.Address); err != nil {
		return err
	}
	if _, err := process.Result(ctx); ctx.Err() == nil {
		return cmp.Or(err, errors.New("the server stopped before it was asked to stop"))
	}
	return process.Stop()
}
