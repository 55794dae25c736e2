package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/base/build"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/run/worker/body"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/wire/stack/catalog"
)

func (a *app) listCommand() *cobra.Command {
	var (
		settings bool
		runs     string
	)
	cmd := a.resultCommand("list list-settings runs", &cobra.Command{
		Use:   "list [--settings [variant]...] [--runs folder]",
		Short: "List stacks with their options, workloads, links, studies and export formats",
		Long: `List everything to choose from: stacks with their options, workloads, links,
studies and export formats.

With --settings, list every setting of a stack that is not its library's default,
with the reason: for each stack, or for the named variants. The settings are
those of one client; a record has the settings of its trial.

With --runs, list the runs in a folder and in its wirelab-runs, the newest first.`,
		Example: `  wirelab list
  wirelab list --json | jq -r '.stacks[].name'
  wirelab list --runs .
  wirelab list --settings
  wirelab list --settings grpc:window=16MiB h2:tls=on,conn=resumed`,
	}, func(_ *cobra.Command, variants []string) (commandResult, error) {
		if settings {
			return listSettings(variants)
		}
		if runs != "" && len(variants) == 0 {
			l, err := record.List(runs)
			if err != nil {
				err = usageError(fmt.Errorf("--runs: %w", err))
			}
			return commandResult{value: l, words: l.Write}, err
		}
		if len(variants) > 0 {
			return commandResult{}, usageError(fmt.Errorf("list %s: a variant needs --settings, as in wirelab list --settings %s", variants[0], variants[0]))
		}
		l, err := scenarioLibrary.ListAll()
		if err == nil {
			l.Formats = lists.Map(report.Formats(), func(f report.Format) plan.ListedName { return plan.ListedName{Name: f.Name, Help: f.About} })
		}
		return commandResult{value: l, words: l.Write}, err
	})
	cmd.Flags().BoolVar(&settings, "settings", false, "list the settings that differ from a library's default")
	cmd.Flags().StringVar(&runs, "runs", "", "list the runs in this `folder`")
	return cmd
}

func (a *app) versionCommand() *cobra.Command {
	return a.resultCommand("version", &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit it was built from, and the version of Go",
		Long: `Print the version, the commit it was built from, whether the source differed from
that commit, the version of Go, and the platform. "unknown" means that the build
did not note it. Each run's manifest.json and page have the same facts.

wirelab --version does the same.`,
		Example: `  wirelab version
  wirelab version --json | jq -r .commit`,
		Args: cobra.NoArgs,
	}, func(*cobra.Command, []string) (commandResult, error) {
		current := build.Current()
		return commandResult{value: current, words: current.Write}, nil
	})
}

// listSettings lists the settings of the named variants, or of every stack if none is named.
func listSettings(variants []string) (commandResult, error) {
	if len(variants) == 0 {
		variants = plan.StackNames()
	}
	var all []plan.VariantSettings
	for _, text := range variants {
		v, err := scenario.ParseVariant(text)
		if err != nil {
			return commandResult{}, usageError(err)
		}
		if err := catalog.Check(v); err != nil {
			return commandResult{}, usageError(err)
		}
		settings, err := body.Settings(v.String())
		if err != nil {
			return commandResult{}, err
		}
		all = append(all, plan.VariantSettings{Variant: v.String(), Settings: settings})
	}
	return commandResult{value: plan.AllSettings{Variants: all}, words: func(w io.Writer) error { return plan.WriteSettings(w, all) }}, nil
}
