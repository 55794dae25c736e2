package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/run/levers"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/show/publish"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/gate"
)

func (a *app) reportCommand() *cobra.Command {
	var output outputFlags
	cmd := &cobra.Command{
		Use:   "report RUN [RUN…]",
		Short: "Judge a run again, and write its report; or one report of several runs",
		Long: `Report reads the records in a run's directory, judges them by this version's
rules, prints the table, and writes report.html and cells.csv there. It
names each judgement that differs from the one made during the run. The records
stay as they are.

For several runs it writes one page with all cells. Every variant gets the name
of its run, as in grpc:run=before. Each run is compared with the first one. Give the runs short labels: before=DIR after=DIR. To see only what became faster or slower, use diff.`,
		Example: `  wirelab report wirelab-runs/compare-20260102-150405
  wirelab report results --columns P90,P99.9,max
  wirelab report results --json | jq '.cells[0].service_us.p99'
  wirelab report before=wirelab-runs/compare-20260102-150405 after=results -o both.html`,
		Args: argumentCount(1, math.MaxInt, "one run's directory, or several"),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return a.reportRuns(args, output)
			case output.directory != "":
				return usageError(errors.New("-o is only for a report of several runs: the report of one run is always in its directory"))
			}
			seen, err := a.readRun(args[0])
			if err != nil {
				return usageError(err)
			}
			return a.publish(seen, output, a.stdout)
		},
	}
	output.registerPrinting(cmd, "compare")
	cmd.Flags().StringVarP(&output.directory, "output", "o", "", "for several runs, the `file` for their page (default: beside-….html in the first run's directory)")
	return cmd
}

// reportRuns writes and prints one report of several runs.
func (a *app) reportRuns(runsWithLabels []string, output outputFlags) error {
	names, directories, err := publish.LabelledRuns(runsWithLabels)
	if err != nil {
		return usageError(err)
	}
	runs := make([]*report.Run, len(directories))
	for i, directory := range directories {
		if runs[i], err = a.readRun(directory); err != nil {
			return usageError(fmt.Errorf("%s: %w", directory, err))
		}
	}
	seen, err := report.Overlay(names, runs)
	if err != nil {
		return err
	}
	page := output.directory
	if page == "" {
		page = filepath.Join(directories[0], "beside-"+strings.Join(names[1:], "-")+".html")
	}
	if err := publish.WriteFile(page, func(w io.Writer) error { return report.WriteHTML(w, seen) }); err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	if output.json {
		return report.WriteJSON(a.stdout, seen)
	}
	return publish.Print(a.stdout, seen, output.printing, page)
}

var oneRunArgument = argumentCount(1, 1, "one run's directory")

func (a *app) exportCommand() *cobra.Command {
	var format, output string
	names := lists.Map(report.Formats(), func(f report.Format) string { return f.Name })
	cmd := &cobra.Command{
		Use:   "export RUN --format FORMAT",
		Short: "Write a run in a format for other tools",
		Example: `  wirelab export results --format csv -o cells.csv
  wirelab export results --format benchstat > new.txt && benchstat old.txt new.txt
  wirelab export results --format hlog -o results.hlog`,
		Args: oneRunArgument,
		RunE: func(_ *cobra.Command, args []string) error {
			if format == "" {
				return usageError(fmt.Errorf("--format is missing: want one of %s", strings.Join(names, ", ")))
			}
			f, err := report.FindFormat(format)
			if err != nil {
				return usageError(fmt.Errorf("--format: %w", err))
			}
			seen, err := a.readRun(args[0])
			if err != nil {
				return usageError(err)
			}
			return a.writeTo(output, func(w io.Writer) error { return f.Write(w, seen) })
		},
	}
	cmd.Flags().StringVar(&format, "format", "", "output `format`: "+strings.Join(names, ", "))
	cmd.Flags().StringVarP(&output, "output", "o", "", "`file` to write (default: standard output)")
	setCompletions(cmd, "format", names)
	return cmd
}

// writeTo writes to the named file, or to standard output.
func (a *app) writeTo(path string, write func(io.Writer) error) error {
	if path == "" {
		return write(a.stdout)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

var diffWriters = map[string]func(io.Writer, *gate.DiffReport) error{
	"json":     report.WriteIndented[*gate.DiffReport],
	"markdown": gate.WriteDiffMarkdown,
	"junit":    gate.WriteDiffJUnit,
}

func (a *app) diffCommand() *cobra.Command {
	var (
		flags        gateFlags
		form, output string
		of           publish.TwoRuns
		asJSON       bool
	)
	forms := []string{"text", "json", "markdown", "junit"}
	cmd := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Show what became faster or slower from one run to another",
		Long: `Diff compares two runs, cell by cell, where both measured the same: the
mean, P99, throughput, and CPU time per request of both ends. A difference is
called faster, slower, more or less only if it is proven; that needs
three valid trials in each run. Both runs measured an anchor, a short fixed cell:
it shows how much the machine itself changed, and every interval includes that.
Measure both runs on one quiet machine, soon after each other.

If a run has another program's figures (wirelab import), service times are
compared, in cells whose clients and load agree as far as the files show. If
several cells match, name them with --before-cell and --after-cell.

With --fail-if, a gate is breached (exit code 3) if the whole interval of a
change lies beyond the limit, and kept if it lies within. Otherwise the runs
cannot tell: exit code 4, or 0 with --undecided pass. A condition may also be on
a figure of the later run, as in 'p99>20ms'. docs/load.md lists all forms.`,
		Example: `  wirelab diff results-before results-after
  wirelab diff before after --fail-if 'p99 > +10%' --fail-if 'throughput < -5%'
  wirelab diff before after --format markdown >> "$GITHUB_STEP_SUMMARY"
  wirelab diff before after --fail-if 'mean > +5%' --format junit -o diff.xml`,
		Args: argumentCount(2, 2, "the directories of two runs, the earlier first"),
		RunE: func(_ *cobra.Command, args []string) error {
			if asJSON {
				form = "json"
			}
			if !slices.Contains(forms, form) {
				return usageError(fmt.Errorf("--format: %q is unknown: want one of %s", form, strings.Join(forms, ", ")))
			}
			conditions, err := flags.conditions(nil)
			if err != nil {
				return usageError(err)
			}
			of.Directories = [2]string(args)
			after, err := a.reader().Diff(of, (&gates{conditions: conditions, undecided: flags.undecided}).find)
			if err != nil {
				return usageError(err)
			}
			err = a.writeTo(output, func(w io.Writer) error {
				if write := diffWriters[form]; write != nil {
					return write(w, after.Since)
				}
				return gate.WriteDiff(w, after.Since, format.TerminalOf(w))
			})
			if err != nil {
				return err
			}
			return runError(after, nil)
		},
	}
	f := cmd.Flags()
	flags.registerConditions(cmd)
	f.StringVar(&form, "format", "text", "output `format`: "+strings.Join(forms, ", "))
	f.StringVarP(&output, "output", "o", "", "`file` to write (default: standard output)")
	registerJSON(cmd, &asJSON, "diff")
	f.StringVar(&of.Only[0], "before-cell", "", "only the earlier run's cells whose name contains this `text`")
	f.StringVar(&of.Only[1], "after-cell", "", "only the later run's cells whose name contains this `text`")
	setCompletions(cmd, "format", forms)
	return cmd
}

func (a *app) explainCommand() *cobra.Command {
	var (
		cells, rules string
		t            tryFlags
		output       outputFlags
	)
	cmd := a.resultCommand("explain levers", &cobra.Command{
		Use:   "explain RUN [LATER-RUN]",
		Short: "Show where the time goes, or why one cell takes longer than another",
		Long: `Explain reads the probes of a run, and shows where the difference
between two of its cells lies, the largest part first: by stage of a call, category
of CPU time, system call and counter. It also says why the slow calls are slow.
With one cell it shows where that cell's time goes. A run has probes if it was
made with --probe, or if its scenario asks for them.

Name a cell by a part of its name that identifies it: tcp, grpc/echo/64B, c=50.
Put a comma between two names, or a semicolon if the names have commas.
Without --cells it compares the first and the slowest cell of the smallest message,
or, if there is only one variant, of its parts, as for links, or of its clients.

With two runs, it shows why a cell takes longer in the later run.

With --try, it tries levers on the slower cell (docs/levers.md lists them): each takes
turns with the plain variant, in a run of its own. The result names the levers that move
the cell, and ends with the line to write into your program. The run needs no probes;
with probes, the suspects of the explanation choose the levers.`,
		Example: `  wirelab compare --stack tcp,grpc --size 64 -c 1 --probe life,syscalls,cpu -o results
  wirelab explain results
  wirelab explain results --cells tcp,grpc
  wirelab explain results --cells grpc
  wirelab explain results --cells 'tcp:buffers=pooled,inflight=16; tcp' --categories mine.yaml
  wirelab explain before after --cells grpc
  wirelab explain results --cells grpc --try
  wirelab explain results --try --of p99 --budget 5m -o levers
  wirelab explain results --levers gogc=400,window=1MiB
  wirelab explain --categories default > mine.yaml     # rules to start from`,
		Args: argumentCount(0, 2, "one run's directory, or two, the earlier first"),
	}, func(cmd *cobra.Command, args []string) (found commandResult, err error) {
		if rules == "default" && len(args) == 0 {
			write := func(w io.Writer) error { _, err := w.Write(insight.BuiltInCategoriesText); return err }
			return commandResult{words: write}, nil
		}
		if len(args) == 0 {
			return found, usageError(errors.New("found 0 arguments: give one run's directory, or two, the earlier first"))
		}
		if t.wanted() && len(args) > 1 {
			return found, usageError(errors.New("--try: found two runs: name the run whose slower cell the levers shall move"))
		}
		if t.wanted() {
			seen, err := a.readRun(args[0])
			if err = cmp.Or(err, t.check()); err != nil {
				return found, usageError(err)
			}
			return a.try(cmd.Context(), seen, cells, t, output)
		}
		e, err := a.reader().Explain(args, cells, rules)
		if err != nil {
			return found, usageError(err)
		}
		found.value, found.words = e, e.Write
		return found, nil
	})
	f := cmd.Flags()
	f.StringVar(&cells, "cells", "", "the `cells` to explain: one, or two separated by a comma or a semicolon")
	t.register(cmd)
	f.DurationVar(&t.budget, "budget", defaultBudget, "`time` for --try: 3 repeats of each lever, then more of the undecided levers until all are decided or the time is over")
	f.StringVarP(&output.directory, "output", "o", "", "`directory` for the run of --try (default: wirelab-runs/levers-DATE)")
	f.StringVar(&rules, "categories", "", "a `file` of rules to use instead of the built-in rules; `default` prints the built-in rules")
	return cmd
}

// try tries levers on a cell of a run, and then the best two together.
func (a *app) try(ctx context.Context, seen *report.Run, cells string, t tryFlags, output outputFlags) (found commandResult, err error) {
	q, err := levers.Ask(seen.Directory, seen.Summary, cells, scenarioLibrary.Vocabulary())
	if err != nil {
		return found, usageError(fmt.Errorf("--try: %s: %w", seen.Directory, err))
	}
	q.Named, q.Figure = t.named, t.figure
	next, err := q.Scenario()
	if err != nil {
		return found, usageError(fmt.Errorf("--try: %w", err))
	}
	if err := a.rerunInUserNamespace(ctx, plan.NeedsNetwork(next)); err != nil {
		return found, err
	}
	r := publish.LeverReport{Explained: q.Explained}
	budget := t.budget
	if !t.began.IsZero() {
		budget = max(budget-time.Since(t.began), time.Second)
	}
	for next != nil {
		j := job{scenario: next, output: output}
		if j.until, err = plan.NewUntil(next, 0, plan.RepeatLimit{Repeats: plan.MaxBudgetRepeats, Time: levers.BudgetOf(budget, len(r.Runs))}); err != nil {
			return found, err
		}
		tried, status, err := a.measureAndRead(ctx, j)
		if tried == nil {
			return found, err
		}
		if err := cmp.Or(err, publish.WriteFiles(tried)); err != nil {
			return found, err
		}
		r.Runs, next = append(r.Runs, tried), nil
		switch {
		case status == record.Interrupted:
			a.sayf("interrupted; continue with `wirelab run --resume %s`", tried.Directory)
			found.end = exitError{code: exitInterrupted}
		case len(r.Runs) == 1:
			if next, err = q.Together(tried.Summary.Levers); err != nil {
				return found, err
			}
			output.directory = cmp.Or(output.directory, tried.Directory) + "-together"
		}
	}
	found.value, found.words = r, r.Write
	return found, nil
}

var lifecycles = []string{"kept", "new"}

func (a *app) adviseCommand() *cobra.Command {
	var (
		size, lifecycle, goal string
		wish                  advice.UseCase
	)
	cmd := a.resultCommand("advise", &cobra.Command{
		Use:   "advise RUN",
		Short: "Recommend a variant by the results of a run",
		Long: `Advise reads a run and recommends a variant for messages of a size and a
number of callers, by the mean response time. --slo leaves only variants that are
certain to keep the goal. Between two measured sizes or concurrencies it names the
variant that is best at both. The advice has a grade: certain, likely or open. An open
case is not recommended, and no case outside the measured range.`,
		Example: `  wirelab advise results
  wirelab advise results --size 4KiB --callers 50 --slo p99=5ms
  wirelab advise results --lifecycle new --callers 100`,
		Args: oneRunArgument,
	}, func(_ *cobra.Command, args []string) (found commandResult, err error) {
		if size != "" {
			if wish.Size, err = scenario.ParsePayload(size); err != nil {
				return found, usageError(fmt.Errorf("--size: %w", err))
			}
		}
		if goal != "" {
			if wish.Goal, err = scenario.ParseGoal(goal); err != nil {
				return found, usageError(fmt.Errorf("--slo: %w", err))
			}
		}
		if wish.Callers < 0 {
			return found, usageError(fmt.Errorf("--callers: found %d: want 1 or more", wish.Callers))
		}
		switch lifecycle {
		case "kept":
		case "new":
			wish.NewConnections = true
		default:
			return found, usageError(fmt.Errorf("--lifecycle: found %q: want one of %s", lifecycle, strings.Join(lifecycles, ", ")))
		}
		seen, err := a.readRun(args[0])
		if err != nil {
			return found, usageError(err)
		}
		lines, leads := advice.Choose(seen.Summary, wish)
		return commandResult{value: publish.Advice{Leads: leads, Advice: lines}, words: printLine(strings.Join(lines, "\n"))}, nil
	})
	f := cmd.Flags()
	f.StringVar(&size, "size", "", "payload `bytes` of request and response, as in 4KiB or 64/4KiB (default: all that were measured)")
	f.IntVar(&wish.Callers, "callers", 0, "`clients` at once (default: all that were measured)")
	f.StringVar(&lifecycle, "lifecycle", "kept", "`connections`: kept, or new for each request")
	f.StringVar(&goal, "slo", "", "a `goal` to keep, as in p99=5ms")
	setCompletions(cmd, "lifecycle", lifecycles)
	return cmd
}
