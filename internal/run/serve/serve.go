// Package serve runs the server of a stack for clients of other programs: one of this program's
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

// A Service says what to serve, and where.
type Service struct {
	Variant, Workload, Address string
	RootFile                   string // file for the root certificate that clients must trust; "": none
	// Ready is called with the address when the server listens.
	Ready func(address string) error
	// Progress receives lines about the build of a worker.
	Progress io.Writer
}

// ErrNoCertificate is wrapped by the error of a service that has no certificate for RootFile.
var ErrNoCertificate = errors.New("is not served over TLS and has no certificate")

// grace is the most time that running calls may take after the service is asked to end.
const grace = 5 * time.Second

// writeRoot writes the root certificate that clients must trust.
func (s *Service) writeRoot(pem []byte) error {
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

// Run serves until ctx ends, then lets running calls end. Errors name the flag.
func (s *Service) Run(ctx context.Context) error {
	if v, err := scenario.ParseVariant(s.Variant); err == nil {
		if p, foreign := catalog.ServerPeer(v); foreign {
			return s.runPeer(ctx, v, p)
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
	if err := s.writeRoot(root); err != nil {
		return errors.Join(err, server.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve() }() // ends with the server
	if err := s.Ready(address.String()); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	return server.Shutdown(ending)
}

// peerStart bounds how long a peer may take until it listens.
const peerStart = 20 * time.Second

// runPeer serves with a worker in another language.
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
	starting, cancel := context.WithTimeoutCause(ctx, peerStart, fmt.Errorf("it was not ready within %v", peerStart))
	defer cancel()
	ready, err := process.Ready(starting)
	if err != nil {
		return err
	}
	if err := s.writeRoot([]byte(ready.RootPEM)); err != nil {
		return err
	}
	if err := s.Ready(ready.Address); err != nil {
		return err
	}
	if _, err := process.Result(ctx); ctx.Err() == nil {
		return cmp.Or(err, errors.New("the server stopped by itself"))
	}
	return process.Stop()
}
