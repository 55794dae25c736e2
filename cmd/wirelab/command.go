package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/base/spelling"
)

// A finding is what a command prints: words, or with --json the value, if there is one.
type finding struct {
	value any
	words func(w io.Writer) error
	end   error // returned when it is printed
}

// printed returns what a command prints.
func printed(value any, words func(w io.Writer) error) finding {
	return finding{value: value, words: words}
}

// finds makes a command of a description and of what it finds. With --json it prints one of the
// form, such as "one JSON object".
func (a *app) finds(form string, cmd *cobra.Command, find func(cmd *cobra.Command, args []string) (finding, error)) *cobra.Command {
	asJSON := cmd.Flags().Bool("json", false, "print "+form)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		found, err := find(cmd, args)
		switch {
		case err != nil:
			return err
		case *asJSON && found.value != nil:
			err = a.printJSON(found.value)
		default:
			err = found.words(a.stdout)
		}
		return cmp.Or(err, found.end)
	}
	return cmd
}

// oneObject is the form of most findings.
const oneObject = "one JSON object"

// line prints one line.
func line(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := fmt.Fprintln(w, text)
		return err
	}
}

// printJSON prints a value on standard output.
func (a *app) printJSON(v any) error {
	encoder := json.NewEncoder(a.stdout)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// group makes a command that only has others.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			names := each(commands, (*cobra.Command).Name)
			slices.Sort(names)
			return usage(fmt.Errorf("%s %q: %s", cmd.Name(), args[0], spelling.Suggest(args[0], names)))
		}
		return cmd.Help()
	}
	return cmd
}

// partCommand makes a command that wirelab starts, and no person does.
func (a *app) partCommand(use, short string, play func(context.Context, io.Reader, io.Writer) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return play(cmd.Context(), a.stdin, a.stdout) },
	}
}

// complete offers the words to the shell's completion of a flag.
func complete(cmd *cobra.Command, flag string, words []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag is not there: our own mistake
	}
}

// each calls of with each item, and returns the results.
func each[T, R any](items []T, of func(T) R) []R {
	results := make([]R, len(items))
	for i, item := range items {
		results[i] = of(item)
	}
	return results
}
