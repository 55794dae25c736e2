// Command wirelab compares RPC wire protocols on the machine it runs on.
//
// This package is flags and wiring, with a file for each family of subcommands. A run
// passes through it in three stages:
//
//  1. The flags or a file become a scenario.
//  2. The lab runs the scenario and writes records.
//  3. The records are read back, analysed and reported.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/judge/check"
	"wirelab.dev/internal/machine/link"
	"wirelab.dev/internal/machine/rebuild"
	"wirelab.dev/internal/run/doctor"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/run/selftest"
	"wirelab.dev/internal/run/worker/body"
	"wirelab.dev/internal/show/report"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run runs the program without its process, and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// The first Ctrl-C ends the run and reports it. stop restores the default, so that a second
	// one ends the program at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, limits: check.Default()}
	args, err := a.asLoad(args)
	if err != nil {
		fmt.Fprintf(stderr, "wirelab: %v\n", err)
		return exitUsage
	}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err = root.ExecuteContext(ctx)
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
		fmt.Fprintf(stderr, "wirelab: %v\n", ended.err)
	}
	return ended.code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "wirelab",
		Short: "A laboratory for RPC wire protocols",
		Long: `wirelab carries one service, byte for byte the same, over raw TCP, REST and
gRPC, loads it, watches both ends, and says which differences are real.

Exit codes: 0 done, 1 failed, 2 usage, 3 a gate is breached,
4 the measurement is invalid,
130 interrupted (finished trials are kept and reported).`,
		Example: `  wirelab compare                       # the usual stacks on this machine, two minutes
  wirelab compare --stack tcp,grpc -c 50 --size 64,4KiB
  wirelab run kernel-study --quick      # a published study
  wirelab doctor                        # what this machine can measure`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
	}
	root.SetVersionTemplate("wirelab {{.Version}}\n")
	root.SetFlagErrorFunc(badFlag)
	group(root,
		a.compareCommand(),
		a.loadCommand(),
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
		a.initCommand(),
		a.partCommand("worker", "Run one end of a trial: the process contract (docs/worker-contract.md)", body.Main),
		a.partCommand(plan.NetworksCommand, "Make a network for a trial, and end", func(context.Context, io.Reader, io.Writer) error { return link.Check() }),
		a.partCommand(doctor.LinkCostCommand, "Measure what emulated links cost here, and end", func(ctx context.Context, _ io.Reader, out io.Writer) error {
			return doctor.PrintLinkCost(ctx, out)
		}),
		a.partCommand("small-object", "Print the largest size that this program's allocator takes for a small object", func(_ context.Context, _ io.Reader, out io.Writer) error {
			_, err := fmt.Fprintln(out, rebuild.SmallObject())
			return err
		}),
		a.partCommand("disturb", "Run a disturber for selftest", selftest.Act),
	)
	commandsOfCobra(root)
	a.prepare(root.Commands())
	return root
}

// prepare turns wrong arguments, and every error before a command begins, into usage errors.
func (a *app) prepare(commands []*cobra.Command) {
	for _, cmd := range commands {
		a.prepare(cmd.Commands())
		if check := cmd.Args; check != nil {
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				if err := check(cmd, args); err != nil {
					return usageOf(cmd, err)
				}
				return nil
			}
		}
		if work := cmd.RunE; work != nil { // otherwise it only has subcommands
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				a.began = true
				return work(cmd, args)
			}
		}
	}
}

// scenarios lists the scenarios that commands can name.
var scenarios = plan.Library{CheckColumn: report.CheckStudyColumn}

// inUserNamespace runs the whole command again in a user namespace, if it needs networks that can
// be made only there. The error then has the exit code. If it is nil, this process continues.
func (a *app) inUserNamespace(ctx context.Context, needed bool) error {
	if !needed {
		return nil
	}
	code, ran, err := plan.RunInUserNamespace(ctx, plan.Terminal{Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr})
	if ran {
		return exitError{code: code}
	}
	return err
}

// version returns the module's version, which the build derives from the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return cmp.Or(strings.Trim(info.Main.Version, "()"), "devel")
}
