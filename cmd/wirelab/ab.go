package main

import (
	"cmp"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/versions"
)

// abFlags holds the flags of ab. All flags of load are among them.
type abFlags struct {
	loadFlags
	pair versions.Pair
}

func (a *app) abCommand() *cobra.Command {
	var b abFlags
	cmd := &cobra.Command{
		Use:   "ab 'BASE-COMMAND' 'HEAD-COMMAND' -- TARGET",
		Short: "Start two versions of a service, and say whether the second is faster or slower",
		Long: `Ab starts two versions of a service on this machine, each with a free port in $PORT.
It sends both the same requests, in turns of tens of milliseconds, and stops them. Then
it says whether the head is faster or slower than the base and by how much, or within
how many percent both are equal.

TARGET is a target of wirelab load with $PORT in place of the port, in single quotes.
All flags of wirelab load can be given; --fail-if 'p99>+10%' is about the change from
the base to the head.

With --git, two revisions of the repository in this directory are built (--build) and
started (--start), each in a worktree of its own, which is removed afterwards. Files
that are changed and not committed stay as they are, and are part of neither version.

Both versions run on the same CPUs, which the load does not use. All processes
that they have started end with them. Their output is in base.log and head.log of the run.`,
		Example: `  wirelab ab './old --port $PORT' './new --port $PORT' -- 'http://127.0.0.1:$PORT/items'
  wirelab ab './server -addr :$PORT' './server -addr :$PORT -cache' -- 'grpc://127.0.0.1:$PORT/shop.v1.Shop/Get' -d '{"id": "7"}'
  wirelab ab --git origin/main HEAD --build 'go build -o server .' --start './server --port $PORT' 'http://127.0.0.1:$PORT/'
  wirelab ab --git v1.2 HEAD --start 'PORT=$PORT npm start' 'http://127.0.0.1:$PORT/' --fail-if 'p99>+10%' --markdown "$GITHUB_STEP_SUMMARY"`,
		Args: cobra.ArbitraryArgs, // flags may follow --
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ab(cmd, &b, args)
		},
	}
	b.register(cmd)
	cmd.Flags().Lookup("against").Hidden = true
	f, p := cmd.Flags(), &b.pair
	f.BoolVar(&p.FromGit, "git", false, "compare two revisions of the git repository in this directory: wirelab ab --git BASE HEAD --start COMMAND TARGET")
	f.StringVar(&p.StartCommand, "start", "", "with --git: the `command` that starts the service, as in './server --port $PORT'")
	f.StringVar(&p.Build, "build", "", "with --git: the `command` that builds the service in its worktree, as in 'go build -o server .'")
	f.DurationVar(&p.StartWithin, "start-within", 30*time.Second, "longest `time` until a started version listens on its port")
	return cmd
}

func (a *app) ab(cmd *cobra.Command, b *abFlags, args []string) (err error) {
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		err = cmd.Flags().Parse(args[dash:])
		args = append(args[:dash:dash], cmd.Flags().Args()...)
	}
	if b.against != "" {
		err = errors.New("--against: ab already compares the two versions that it starts: leave it out")
	}
	p := &b.pair
	if err = cmp.Or(err, p.Check(args, b.journey.target)); err != nil {
		return usageErrorFor(cmd, err)
	}
	program, err := ownProgram()
	if err != nil {
		return err
	}
	at := lab.New(nil)
	p.Notes, p.Keeper, p.In = a.stderr, []string{program, versions.KeeperCommand}, host.StartOptions{CPUs: at.Placement.Server, Nice: at.Nice}
	defer p.Stop()
	if err := p.Prepare(cmd.Context(), args[0], args[1]); err != nil {
		return err
	}
	base, head, text := p.Versions[0], p.Versions[1], args[2]
	if b.journey.target == "" {
		text, b.against = base.Expand(text), head.Expand(text)
	} else {
		b.journey.target, b.against = base.Expand(b.journey.target), head.Expand(b.journey.target)
	}
	b.wait = max(b.wait, p.StartWithin) // a version may listen before it answers
	called, err := b.versions(text)     // before anything is started
	if err != nil {
		return usageError(err)
	}
	if !b.output.dryRun {
		if err := p.Start(cmd.Context(), called[0].target.Host); err != nil {
			return err
		}
	}
	b.finish = p.KeepLogs
	err, ended := a.load(cmd, &b.loadFlags, text), p.Ended()
	if err != nil && ended != nil {
		a.sayf("%v", ended)
	}
	return cmp.Or(err, ended)
}
