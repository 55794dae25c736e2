package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/peer"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
)

// serveGrace is how long running calls may take after Ctrl-C.
const serveGrace = 5 * time.Second

func (a *app) serveCommand() *cobra.Command {
	var s served
	var anywhere, overTLS bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a built-in service over a stack, for clients of your own",
		Long: `Serve starts a server as a trial would and prints the address it listens on.
It listens on loopback unless --anywhere allows another address, because none of
the services asks who calls.`,
		Example: `  wirelab serve --stack rest --addr 127.0.0.1:8080
  curl --data-binary @payload.bin -H 'Content-Type: application/x-protobuf' http://127.0.0.1:8080/echo

  wirelab serve --stack rest-json --workload users --addr 127.0.0.1:8080
  curl 'http://127.0.0.1:8080/users?limit=2'

  wirelab serve --stack h1 --tls --ca root.pem --addr 127.0.0.1:8443
  curl --cacert root.pem --data-binary @payload.bin -H 'Content-Type: application/x-protobuf' https://127.0.0.1:8443/echo

  wirelab serve --stack grpc --addr 127.0.0.1:0      # prints the port it got
  grpcurl -plaintext -d '{"id": 1, "data": "aGk="}' 127.0.0.1:PORT wirelab.echo.v1.EchoService/Echo

  wirelab serve --stack h2:server=rust               # by a worker in another language`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := scenario.ParseVariant(s.variant)
			if overTLS {
				v = catalog.Secure(v)
			}
			if err == nil {
				err = catalog.Check(v)
			}
			if err != nil {
				return usage(fmt.Errorf("--stack: %w", err))
			}
			if err := scenarios.Vocabulary().CheckWorkload(s.workload); err != nil {
				return usage(fmt.Errorf("--workload: %w", err))
			}
			if err := checkLoopback(s.address, anywhere); err != nil {
				return usage(err)
			}
			s.variant = v.String()
			return a.serve(cmd.Context(), s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.variant, "stack", "", "`variant` to serve, as in grpc or tcp:buffers=pooled")
	f.StringVar(&s.workload, "workload", "echo", "`service` to serve, as in users:work=0s")
	f.StringVar(&s.address, "addr", "127.0.0.1:0", "`HOST:PORT` to listen on; port 0 takes a free one")
	f.BoolVar(&anywhere, "anywhere", false, "allow an address that is not loopback")
	f.BoolVar(&overTLS, "tls", false, "serve over TLS 1.3 with a certificate made now: the same as tls=on in the variant")
	f.StringVar(&s.rootFile, "ca", "", "write the root certificate that clients must trust to this `file`")
	f.BoolVar(&s.json, "json", false, "print the address as a JSON object")
	if err := cmd.MarkFlagRequired("stack"); err != nil {
		panic(err) // the flag is not there: our own mistake
	}
	complete(cmd, "stack", stackNames())
	complete(cmd, "workload", workloadWords())
	return cmd
}

// served is what serve was asked for.
type served struct {
	variant, workload, address string
	rootFile                   string
	json                       bool
}

// rootOf is the root certificate that a server's clients must trust; nil: it has none.
func rootOf(server stack.Server) []byte {
	if secured, ok := server.(stack.TLSServer); ok {
		return secured.RootPEM()
	}
	return nil
}

// writeRoot writes the root certificate that clients must trust.
func (s served) writeRoot(pem []byte) error {
	if s.rootFile == "" {
		return nil
	}
	if len(pem) == 0 {
		return usage(fmt.Errorf("--ca: %s is not served over TLS and has no certificate: add --tls", s.variant))
	}
	if err := os.WriteFile(s.rootFile, pem, 0o644); err != nil {
		return fmt.Errorf("--ca: %w", err)
	}
	return nil
}

func checkLoopback(address string, anywhere bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("--addr %s: want HOST:PORT, as in 127.0.0.1:8080 (%w)", address, err)
	}
	ip := net.ParseIP(host)
	if anywhere || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("--addr %s: not a loopback address; with --anywhere it is allowed, and anyone who reaches this machine may call", address)
}

// announceServed prints where the service is.
func (a *app) announceServed(s served, address string) error {
	if s.json {
		return a.printJSON(map[string]string{"stack": s.variant, "workload": s.workload, "address": address})
	}
	_, err := fmt.Fprintf(a.stdout, "%s over %s on %s; Ctrl-C stops it\n", s.workload, s.variant, address)
	return err
}

func (a *app) serve(ctx context.Context, s served) error {
	if v, err := scenario.ParseVariant(s.variant); err == nil {
		if p, foreign := catalog.ServerPeer(v); foreign {
			return a.servePeer(ctx, s, v, p)
		}
	}
	server, err := worker.NewServer(s.variant, worker.Workload{Name: s.workload})
	if err != nil {
		return err
	}
	address, err := server.Listen(ctx, s.address)
	if err != nil {
		return fmt.Errorf("--addr %s: %w", s.address, err)
	}
	if err := s.writeRoot(rootOf(server)); err != nil {
		return errors.Join(err, server.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve() }() // ends with the server
	if err := a.announceServed(s, address.String()); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), serveGrace)
	defer cancel()
	return server.Shutdown(grace)
}

// peerStart bounds how long a peer may take until it listens.
const peerStart = 20 * time.Second

// servePeer has a worker in another language serve.
func (a *app) servePeer(ctx context.Context, s served, v scenario.Variant, p peer.Peer) error {
	path, err := p.Build(ctx, a.stderr)
	if err != nil {
		return err
	}
	process, err := worker.Start(worker.Launch{Name: "server " + s.variant, Command: []string{path}, Spec: worker.Spec{
		Contract: worker.Contract, Role: worker.ServerRole, Stack: catalog.ForPeer(v, p, peer.Server).String(),
		Workload: worker.Workload{Name: s.workload}, Address: s.address,
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
	if err := a.announceServed(s, ready.Address); err != nil {
		return err
	}
	if _, err := process.Result(ctx); ctx.Err() == nil {
		return cmp.Or(err, errors.New("the server stopped by itself"))
	}
	return process.Stop()
}
