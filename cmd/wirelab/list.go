package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/run/worker/body"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/wire/stack/catalog"
)

func (a *app) listCommand() *cobra.Command {
	var settings bool
	cmd := a.resultCommand(oneJSONObject, &cobra.Command{
		Use:   "list [--settings [variant]...]",
		Short: "List stacks with their options, workloads, links, studies and export formats",
		Long: `List everything to choose from: stacks with their options, workloads, links,
studies and export formats.

With --settings, list every setting of a stack that is not its library's default,
with the reason: for each stack, or for the named variants. The settings are
those of one client; a record has the settings of its trial.`,
		Example: `  wirelab list
  wirelab list --json | jq -r '.stacks[].name'
  wirelab list --settings
  wirelab list --settings grpc:window=16MiB h2:tls=on,conn=resumed`,
	}, func(_ *cobra.Command, variants []string) (commandResult, error) {
		if settings {
			return listSettings(variants)
		}
		if len(variants) > 0 {
			return commandResult{}, usageError(fmt.Errorf("list %s: a variant needs --settings, as in wirelab list --settings %s", variants[0], variants[0]))
		}
		l, err := scenarioLibrary.ListAll()
		if err == nil {
			l.Formats = lists.Map(report.Formats(), func(f report.Format) plan.ListedName { return plan.ListedName{Name: f.Name, Help: f.About} })
		}
		return commandResult{value: l, words: func(w io.Writer) error { return printListing(w, l) }}, err
	})
	cmd.Flags().BoolVar(&settings, "settings", false, "list the settings that differ from a library's default")
	return cmd
}

func printListing(to io.Writer, l *plan.Listing) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STACKS")
	for _, s := range l.Stacks {
		fmt.Fprintf(w, "  %s\t%s; connections: %s\n", s.Name, s.Help, s.Connection)
		printOptions(w, s.Options)
	}
	fmt.Fprintln(w, "  every stack\t")
	printOptions(w, l.Common)
	fmt.Fprint(w, "\nWORKLOADS\n")
	for _, work := range l.Workloads {
		fmt.Fprintf(w, "  %s\t%s\n", work.Name, work.Help)
		printOptions(w, work.Options)
	}
	for _, group := range []struct {
		title  string
		things []plan.ListedName
	}{{"LINKS", l.Links}, {"STUDIES", l.Studies}, {"EXPORT FORMATS", l.Formats}} {
		fmt.Fprintf(w, "\n%s\n", group.title)
		for _, t := range group.things {
			fmt.Fprintf(w, "  %s\t%s\n", t.Name, t.Help)
		}
	}
	return w.Flush()
}

func printOptions(w *tabwriter.Writer, options []plan.ListedOption) {
	for _, o := range options {
		values := cmp.Or(strings.Join(o.Values, "|"), "…")
		help := o.Help
		if o.Default != "" {
			help += " (default " + o.Default + ")"
		}
		fmt.Fprintf(w, "    %s=%s\t%s\n", o.Key, values, help)
	}
}

type variantSettings struct {
	Variant  string           `json:"variant"`
	Settings []tuning.Setting `json:"settings"`
}

// listSettings lists the settings of the named variants, or of every stack if none is named.
func listSettings(variants []string) (commandResult, error) {
	if len(variants) == 0 {
		variants = plan.StackNames()
	}
	var all []variantSettings
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
		all = append(all, variantSettings{v.String(), settings})
	}
	return commandResult{value: map[string]any{"variants": all}, words: func(w io.Writer) error { return printSettings(w, all) }}, nil
}

func printSettings(to io.Writer, all []variantSettings) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for i, v := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s\n", v.Variant)
		fmt.Fprint(w, "  END\tSETTING\tVALUE\tDEFAULT\tREASON\n")
		for _, s := range v.Settings {
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", s.Side, s.Name, s.Value, s.Default, s.Why)
		}
		if err := w.Flush(); err != nil { // each variant has its own column widths
			return err
		}
	}
	return nil
}
