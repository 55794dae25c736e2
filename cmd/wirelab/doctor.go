package main

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/run/doctor"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/selftest"
)

func (a *app) doctorCommand() *cobra.Command {
	return a.resultCommand("doctor", &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can measure, what it cannot, and why",
		Example: `  wirelab doctor
  wirelab doctor --json | jq '.findings[] | select(.status != "ok")'`,
		Args: cobra.NoArgs,
	}, func(cmd *cobra.Command, _ []string) (commandResult, error) {
		d := doctor.Examine(cmd.Context())
		return commandResult{value: d, words: d.Write}, nil
	})
}

type selftestFlags struct {
	only        string
	list, json  bool
	machineWide bool
	chosen      []selftest.Situation
	program     string
}

func (a *app) selftestCommand() *cobra.Command {
	var s selftestFlags
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Disturb trials on purpose, and list which disturbances wirelab notices on this machine",
		Long: `Selftest stages situations that make a measurement false: a process that takes the
server's CPU, a server that leaves out its work, connections that are reset, and
more. It measures one trial in each situation, and prints which check noticed the
fault, if any, and how far the figure moved. Each situation has an honest twin,
the same setup without the fault, which should be valid.

It takes about three minutes. Some situations need root, or control groups; those
that cannot be staged are listed with the reason. Exit code 4 means that no check
noticed a false figure, or that more than one honest twin in 30 was refused.`,
		Example: `  wirelab selftest
  sudo wirelab selftest --only 'burner|quota'
  wirelab selftest --list
  wirelab selftest --json | jq -r '.situations[] | select(.class == "passed") | .name'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pattern, err := regexp.Compile(s.only)
			if err != nil {
				return usageError(fmt.Errorf("--only: %w", err))
			}
			if s.chosen = selftest.Select(pattern); len(s.chosen) == 0 {
				return usageError(fmt.Errorf("--only %s: no situation matches; `wirelab selftest --list` shows all", s.only))
			}
			if s.list {
				return a.listSituations(s.chosen, s.json)
			}
			if s.program, err = ownProgram(); err != nil {
				return err
			}
			if err := a.rerunInUserNamespace(cmd.Context(), true); err != nil {
				return err
			}
			return a.selftest(cmd.Context(), &s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.only, "only", "", "stage the situations whose names match this `pattern`")
	f.BoolVar(&s.list, "list", false, "print the situations, and stage none")
	registerJSON(cmd, &s.json, "selftest situations")
	f.BoolVar(&s.machineWide, "machine-wide", false, "also stage situations that disturb every program on the machine, such as a clock step")
	setCompletions(cmd, "only", lists.Map(selftest.Situations(), func(s selftest.Situation) string { return s.Name }))
	return cmd
}

func (a *app) listSituations(all []selftest.Situation, asJSON bool) error {
	if asJSON {
		return a.printJSON(selftest.Listing{Version: selftest.ResultVersion, Situations: all})
	}
	for _, s := range all {
		fmt.Fprintf(a.stdout, "%-16s %s\n%-16s twin: %s\n", s.Name, s.Lie, "", s.Twin)
	}
	return nil
}

func (a *app) selftest(ctx context.Context, s *selftestFlags) error {
	began := time.Now()
	words := a.stdout
	if s.json {
		words = a.stderr
	}
	g := selftest.Runner{
		Worker: []string{s.program, "worker"}, Actor: []string{s.program, "disturb"}, MachineWide: s.machineWide,
	}
	result := selftest.Result{Version: selftest.ResultVersion, Placement: lab.New(g.Worker).Placement, Classes: map[selftest.Class]int{}}
	fmt.Fprintf(a.stderr, "%d situations, each with an honest twin; each trial takes about 3 s\n", len(s.chosen))
	for i, situation := range s.chosen {
		v, err := g.Examine(ctx, situation)
		if err != nil {
			if ctx.Err() != nil {
				fmt.Fprintf(a.stderr, "interrupted: %d of %d situations were staged\n", i, len(s.chosen))
				return exitError{code: exitInterrupted}
			}
			return err
		}
		result.Add(v)
		fmt.Fprintf(words, "%2d/%d %s\n", i+1, len(s.chosen), v.Describe())
	}
	fmt.Fprintf(words, "\n%s, in %v\n", result.Totals(), time.Since(began).Round(time.Second))
	if s.json {
		if err := a.printJSON(result); err != nil {
			return err
		}
	}
	if err := result.Check(); err != nil {
		return exitError{exitInvalid, err}
	}
	return nil
}
