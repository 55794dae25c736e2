// Command wirelab compares RPC wire protocols on the machine it runs on.
//
// This package reads the flags and connects the other packages, with one file per family of
// subcommands. A run passes through it in three stages:
//
//  1. The flags or a file become a scenario.
//  2. The lab runs the scenario and writes records.
//  3. The records are read back, analysed and reported.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/base/build"
	"wirelab.dev/internal/judge/check"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/link"
	"wirelab.dev/internal/machine/rebuild"
	"wirelab.dev/internal/run/doctor"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/run/selftest"
	"wirelab.dev/internal/run/versions"
	"wirelab.dev/internal/run/worker/body"
	"wirelab.dev/internal/show/report"
)

func main() {
	// net/http logs bytes that it does not expect. wirelab's own messages explain a failure better.
	log.SetOutput(io.Discard) //nolint:forbidigo // logs nothing
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes a command line and returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// The first Ctrl-C ends the run, and the run is reported. stop restores the default handler: a
	// second Ctrl-C ends the program at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, limits: check.DefaultLimits()}
	if play, hidden := hiddenCommands[strings.Join(args, " ")]; hidden {
		a.began = true
		return a.exitCode(play(ctx, stdin, stdout))
	}
	host.DelayFirstCollection()
	if len(args) > 0 && args[0] == "--version" {
		args = append([]string{"version"}, args[1:]...)
	}
	args, err := a.translateLoadArguments(args)
	if err != nil {
		fmt.Fprintf(stderr, "wirelab: %v\n", err)
		return exitUsage
	}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetErr(stderr)
	return a.exitCode(root.ExecuteContext(ctx))
}

// exitCode prints a command's error, and returns the exit code.
func (a *app) exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	ended, is := errors.AsType[exitError](err)
	if !is {
		ended = exitError{exitFailed, err}
		if !a.began {
			ended.code = exitUsage
		}
	}
	if ended.err != nil {
		a.sayf("wirelab: %v", ended.err)
	}
	return ended.code
}

// hiddenCommands holds the commands that only wirelab itself starts, as its own processes. They do not
// make the tree of commands, which takes milliseconds.
var hiddenCommands = map[string]func(context.Context, io.Reader, io.Writer) error{
	"worker":             body.Main, // one end of a trial, by the process contract (docs/worker-contract.md)
	plan.NetworksCommand: func(context.Context, io.Reader, io.Writer) error { return link.CheckSupport() },
	doctor.LinkCostCommand: func(ctx context.Context, _ io.Reader, out io.Writer) error {
		return doctor.PrintLinkCost(ctx, out)
	},
	"small-object": func(_ context.Context, _ io.Reader, out io.Writer) error {
		_, err := fmt.Fprintln(out, rebuild.SmallObjectLimit())
		return err
	},
	versions.KeeperCommand: versions.Keep,
	"disturb":              selftest.RunDisturber,
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "wirelab",
		Short: "A laboratory for RPC wire protocols",
		Long: `wirelab carries one service, byte for byte the same, over raw TCP, REST and
gRPC, loads it, watches both ends, and says which differences are real.

Exit codes: 0 done, 1 failed, 2 usage, 3 a gate is breached,
4 the measurement is invalid or cannot tell,
130 interrupted (finished trials are kept and reported).`,
		Example: `  wirelab compare                       # the usual stacks on this machine, two minutes
  wirelab compare --stack tcp,grpc -c 50 --size 64,4KiB
  wirelab run kernel-study --quick      # a published study
  wirelab doctor                        # what this machine can measure`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       build.Version(),
	}
	root.SetFlagErrorFunc(explainFlagError)
	commandGroup(root,
		a.compareCommand(),
		a.loadCommand(),
		a.abCommand(),
		a.pingCommand(),
		a.runCommand(),
		a.replicateCommand(),
		a.reportCommand(),
		a.explainCommand(),
		a.adviseCommand(),
		a.diffCommand(),
		a.importCommand(),
		a.exportCommand(),
		a.serveCommand(),
		a.agentCommand(),
		a.doctorCommand(),
		a.selftestCommand(),
		a.peersCommand(),
		a.fleetCommand(),
		a.listCommand(),
		a.mcpCommand(),
		a.initCommand(),
		a.versionCommand(),
	)
	root.SetOut(a.stdout) // now, since the command completion keeps it
	replaceCobraCommands(root)
	a.markUsageErrors(root.Commands())
	return root
}

// markUsageErrors turns errors about arguments into usage errors, and notes that a command began.
func (a *app) markUsageErrors(commands []*cobra.Command) {
	for _, cmd := range commands {
		a.markUsageErrors(cmd.Commands())
		if check := cmd.Args; check != nil {
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				if err := check(cmd, args); err != nil {
					return usageErrorFor(cmd, err)
				}
				return nil
			}
		}
		if work := cmd.RunE; work != nil { // a command without RunE only has subcommands
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				if err := plan.CheckSystem(runtime.GOOS, cmd.Name(), cmd.Flags().Changed); err != nil {
					return usageError(err)
				}
				a.began = true
				return work(cmd, args)
			}
		}
	}
}

// scenarioLibrary lists the scenarios that commands can name.
var scenarioLibrary = plan.Library{CheckColumn: report.CheckStudyColumn}

// rerunInUserNamespace runs the whole command again in a user namespace, if networks need one. It
// then returns the other process's exit code as an error; nil means that no other process ran.
func (a *app) rerunInUserNamespace(ctx context.Context, needed bool) error {
	if !needed {
		return nil
	}
	code, ran, err := plan.RunInUserNamespace(ctx, plan.StandardStreams{Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr})
	if ran {
		return exitError{code: code}
	}
	return err
}
