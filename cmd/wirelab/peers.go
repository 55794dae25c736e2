package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/run/worker/conform"
	"wirelab.dev/internal/wire/peer"
	"wirelab.dev/internal/wire/stack/catalog"
)

func (a *app) peersCommand() *cobra.Command {
	return commandGroup(&cobra.Command{
		Use:   "peers",
		Short: "Build workers in other languages, and check a worker against the contract",
		Long: `Peers are workers in other languages, with those languages' usual libraries. A
variant names a peer by server=, by client=, or by peer= for both ends, as in
grpc:server=rust: then the client is the same, and only the server's
implementation differs, not the wire. A peer is built on first use, from
sources that wirelab carries. The peer rivals has the stacks of other Go libraries
(kitex, drpc, ttrpc, rpcx) and is built in a clone of wirelab's repository.`,
		Example: `  wirelab peers list
  wirelab peers build rust
  wirelab compare --stack grpc,grpc:server=rust,grpc:peer=cpp
  wirelab run client-bottleneck --peers cpp
  wirelab peers check ./my-worker --its-flag`,
	}, a.peersListCommand(), a.peersBuildCommand(), a.peersCheckCommand())
}

func (a *app) peersListCommand() *cobra.Command {
	return a.resultCommand("peers-list", &cobra.Command{
		Use: "list", Short: "List the peers, what they serve, and whether they are built", Args: cobra.NoArgs,
		Example: `  wirelab peers list
  wirelab peers list --json | jq '.[].wires'`,
	}, func(*cobra.Command, []string) (commandResult, error) {
		all, err := peer.List()
		if err != nil {
			return commandResult{}, err
		}
		return commandResult{value: all, words: func(w io.Writer) error { return peer.WriteList(w, all) }}, nil
	})
}

func (a *app) peersBuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "build [PEER…]",
		Short:     "Build peers into the user's cache; without names, all peers that can be built here",
		ValidArgs: peer.Names(),
		Example: `  wirelab peers build
  wirelab peers build rust`,
		RunE: func(cmd *cobra.Command, names []string) error {
			all := len(names) == 0
			if all {
				names = peer.Names()
			}
			var built []string
			for _, name := range names {
				p, ok := peer.Find(name)
				if !ok {
					return usageError(fmt.Errorf("peer %q: %s", name, spelling.Suggest(name, peer.Names())))
				}
				if lacks := p.Missing(); all && lacks != "" {
					fmt.Fprintf(a.stderr, "the peer %s is left out: %s\n", name, lacks)
					continue
				}
				path, err := p.Build(cmd.Context(), a.stderr)
				if err != nil {
					return err
				}
				built = append(built, path)
			}
			for _, path := range built {
				fmt.Fprintln(a.stdout, path)
			}
			return nil
		},
	}
}

func (a *app) peersCheckCommand() *cobra.Command {
	var p conform.Peer
	cmd := &cobra.Command{
		Use:   "check [--stack VARIANT] [--server] [--client] WORKER [ARGUMENT…]",
		Short: "Check any worker against the process contract, and print its failures",
		Long: `Check starts a worker as a trial would, with wirelab's own as the other end, and
compares it with the process contract (docs/worker-contract.md). If the
worker does not report its abilities, name a variant that it speaks with --stack,
and its ends with --server and --client. WORKER may also be the name of a peer.
The exit code is 1 if a check failed.`,
		Example: `  wirelab peers check ./my-worker
  wirelab peers check rust
  wirelab peers check --stack tcp --server ./my-worker
  wirelab peers check --stack grpc --server --client java -jar my-worker.jar`,
		RunE: func(cmd *cobra.Command, command []string) error {
			program, err := ownProgram()
			if err != nil {
				return err
			}
			if err := checkStackFlag(p.Stack); err != nil {
				return usageError(fmt.Errorf("--stack: %w", err))
			}
			if p.Command, err = a.workerToCheck(cmd.Context(), command); err != nil {
				return err
			}
			p.Reference = []string{program, "worker"}
			peers, err := conform.ChoosePeers(cmd.Context(), p, func(line string) { fmt.Fprintln(a.stderr, line) })
			switch {
			case cmd.Context().Err() != nil:
				return exitError{code: exitInterrupted}
			case err != nil:
				return usageError(err)
			}
			failed, skipped, all := 0, 0, 0
			for _, one := range peers {
				if one.Reference, err = a.contractReference(cmd.Context(), one); err != nil {
					return err
				}
				bad, left, checks := a.checkContract(cmd.Context(), one)
				failed, skipped, all = failed+bad, skipped+left, all+checks
				if cmd.Context().Err() != nil {
					return exitError{code: exitInterrupted}
				}
			}
			if failed > 0 {
				return fmt.Errorf("%s fails %d of %d checks", strings.Join(command, " "), failed, all)
			}
			left := ""
			if skipped > 0 {
				left = fmt.Sprintf("; %d checks do not apply", skipped)
			}
			fmt.Fprintf(a.stdout, "%s passes all %d checks%s\n", strings.Join(command, " "), all, left)
			return nil
		},
	}
	cmd.Flags().SetInterspersed(false) // flags after the worker's command belong to the worker
	cmd.Flags().StringVar(&p.Stack, "stack", "", "check only this `variant`, not all variants that the worker reports")
	cmd.Flags().BoolVar(&p.Server, "server", false, "use the worker as a server, whatever it reports")
	cmd.Flags().BoolVar(&p.Client, "client", false, "use the worker as a client, whatever it reports")
	setCompletions(cmd, "stack", plan.StackNames())
	return cmd
}

// workerToCheck returns the command that starts the worker that the user names: a peer, which it
// builds, or a program with its arguments. java alone is the peer, java -jar … the program.
func (a *app) workerToCheck(ctx context.Context, named []string) ([]string, error) {
	allowed := "give the path of a program, as in ./my-worker, or a peer (" + strings.Join(peer.Names(), ", ") + ")"
	if len(named) == 0 {
		return nil, usageError(errors.New("no worker to check: " + allowed))
	}
	one, isPeer := peer.Find(named[0])
	if isPeer && len(named) == 1 {
		path, err := one.Build(ctx, a.stderr)
		return []string{path}, err
	}
	_, err := exec.LookPath(named[0])
	switch failed, is := errors.AsType[*exec.Error](err); {
	case err == nil:
		return named, nil
	case isPeer:
		return nil, usageError(fmt.Errorf("the peer %s takes no arguments, but got %q: leave them out", one.Name, named[1:]))
	case is:
		err = failed.Err
	}
	if meant, found := spelling.ClosestWord(named[0], peer.Names()); found {
		allowed = "did you mean the peer " + meant + "?"
	}
	return nil, usageError(fmt.Errorf("worker %q: neither a peer nor a program that can be started (%w): %s", named[0], err, allowed))
}

// checkStackFlag returns an error for a stack that wirelab, which plays the other end, does not have.
func checkStackFlag(text string) error {
	if text == "" {
		return nil
	}
	v, err := scenario.ParseVariant(text)
	if err == nil {
		_, err = catalog.Find(v.Stack)
	}
	return err
}

// contractReference returns the command of the other end in a worker's checks: wirelab's own worker,
// or the peer that has the stack.
func (a *app) contractReference(ctx context.Context, p conform.Peer) ([]string, error) {
	v, err := scenario.ParseVariant(p.Stack)
	if err != nil {
		return nil, usageError(err)
	}
	carrier, carried := catalog.Carrier(v)
	if !carried {
		return p.Reference, nil
	}
	path, err := carrier.Build(ctx, a.stderr)
	return []string{path}, err
}

// checkContract checks a worker against the contract, with one stack. It prints one line per check.
// all does not count the skipped checks.
func (a *app) checkContract(ctx context.Context, p conform.Peer) (failed, skipped, all int) {
	for _, check := range conform.Checks(p) {
		if check.Skip != "" {
			skipped++
			fmt.Fprintf(a.stdout, "skip  %s: %s: %s\n", p.Stack, check.Name, check.Skip)
			continue
		}
		all++
		found := check.RunOutsideTests(ctx)
		if ctx.Err() != nil {
			break
		}
		if found == nil {
			fmt.Fprintf(a.stdout, "ok    %s: %s\n", p.Stack, check.Name)
			continue
		}
		failed++
		fmt.Fprintf(a.stdout, "FAIL  %s: %s\n        %s\n", p.Stack, check.Name, strings.ReplaceAll(found.Error(), "\n", "\n        "))
	}
	return failed, skipped, all
}
