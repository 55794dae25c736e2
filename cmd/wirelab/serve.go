package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/base/build"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/run/serve"
	"wirelab.dev/internal/show/mcp"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/stack/catalog"
)

func (a *app) serveCommand() *cobra.Command {
	s := serve.Service{Progress: a.stderr}
	var anywhere, overTLS, asJSON bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a built-in service over a stack, for clients of your own",
		Long: `Serve starts a server as a trial would and prints the address it listens on.
It listens on loopback unless --anywhere allows another address, because the
services do not check who calls.`,
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
			v, err := scenario.ParseVariant(s.Variant)
			if overTLS {
				v = catalog.Secure(v)
			}
			if err == nil {
				err = catalog.Check(v)
			}
			if err != nil {
				return usageError(fmt.Errorf("--stack: %w", err))
			}
			if err := scenarioLibrary.Vocabulary().CheckWorkload(s.Workload); err != nil {
				return usageError(fmt.Errorf("--workload: %w", err))
			}
			if err := checkLoopback(s.Address, anywhere); err != nil {
				return usageError(err)
			}
			s.Variant = v.String()
			s.Ready = func(address string) error {
				if asJSON {
					return a.printJSON(serve.Listening{Stack: s.Variant, Workload: s.Workload, Address: address})
				}
				_, err := fmt.Fprintf(a.stdout, "%s over %s on %s; Ctrl-C stops it\n", s.Workload, s.Variant, address)
				return err
			}
			err = s.Run(cmd.Context())
			if errors.Is(err, serve.ErrNoCertificate) {
				return usageError(err)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Variant, "stack", "", "`variant` to serve, as in grpc or tcp:buffers=pooled")
	f.StringVar(&s.Workload, "workload", "echo", "`service` to serve, as in users:work=0s")
	f.StringVar(&s.Address, "addr", "127.0.0.1:0", "`HOST:PORT` to listen on; port 0 takes a free one")
	f.BoolVar(&anywhere, "anywhere", false, "allow an address other than loopback")
	f.BoolVar(&overTLS, "tls", false, "serve over TLS 1.3 with a certificate made now: the same as tls=on in the variant")
	f.StringVar(&s.RootFile, "ca", "", "write the root certificate that clients must trust to this `file`")
	registerJSON(cmd, &asJSON, "serve")
	if err := cmd.MarkFlagRequired("stack"); err != nil {
		panic(err) // a bug: the flag does not exist
	}
	setCompletions(cmd, "stack", plan.StackNames())
	setCompletions(cmd, "workload", plan.WorkloadsWithOptions())
	return cmd
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
	return fmt.Errorf("--addr %s: not a loopback address; --anywhere allows it, but then anyone who reaches this machine can call the service", address)
}

func (a *app) mcpCommand() *cobra.Command {
	o := mcp.Options{Variants: plan.Variants, Address: func(target string) (host, port string, err error) {
		t, err := service.ParseTarget(target, "")
		return t.Host, t.Port, err
	}}
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Offer wirelab's commands as tools to programs that speak MCP",
		Long: `Mcp is a server of the Model Context Protocol on standard input and output, for
editors and assistants that call tools. It offers doctor, runs, report, explain and
diff, which send no traffic and change nothing; they read only runs under --runs.

With --allow-load it also offers compare, which starts its own servers on this machine,
and load, which calls a service on loopback or at an --allow-target. Each measurement
ends after its budget, at most ten minutes; one runs at a time. docs/mcp.md shows how
a client starts this command.`,
		Example: `  wirelab mcp
  wirelab mcp --runs results
  wirelab mcp --allow-load --allow-target staging.test:8080`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Program, err = ownProgram(); err != nil {
				return err
			}
			o.Version = build.Version()
			if err = mcp.Serve(cmd.Context(), o, io.NopCloser(a.stdin), os.Stdout); err != nil {
				return usageError(err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Runs, "runs", ".", "the `folder` whose runs the tools read, and where new runs go")
	f.BoolVar(&o.AllowLoad, "allow-load", false, "also offer the tools that measure")
	f.StringArrayVar(&o.Targets, "allow-target", nil, "a `HOST` or HOST:PORT beyond loopback that load may call; repeatable")
	return cmd
}
