package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/judge/check"
	"wirelab.dev/internal/show/report"
)

// A commandResult is a command's output. --json prints value; without --json, words prints text.
type commandResult struct {
	value any
	words func(w io.Writer) error
	end   error // error to return after printing
}

// resultCommand makes a command that prints the result of find. schema names the schema of the JSON
// output, and may name more, with spaces between.
func (a *app) resultCommand(schema string, cmd *cobra.Command, find func(cmd *cobra.Command, args []string) (commandResult, error)) *cobra.Command {
	var asJSON bool
	registerJSON(cmd, &asJSON, schema)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.printResult(asJSON)(find(cmd, args)) }
	return cmd
}

// schemasOf is the annotation of a flag --json with the names of the output's schemas (docs/schema).
const schemasOf = "schemas"

// registerJSON adds the flag --json. The first of the schemas is that of the usual output.
func registerJSON(cmd *cobra.Command, asJSON *bool, schemas string) {
	f, names := cmd.Flags(), strings.Fields(schemas)
	f.BoolVar(asJSON, "json", false, "print JSON on standard output, and words on standard error; the schema: https://wirelab.dev/schema/"+names[0]+".schema.json")
	f.Lookup("json").Annotations = map[string][]string{schemasOf: names}
}

// printResult returns a function that prints a command's output, unless there is an error.
func (a *app) printResult(asJSON bool) func(commandResult, error) error {
	return func(found commandResult, err error) error {
		switch {
		case err != nil:
			return err
		case asJSON && found.value != nil:
			err = a.printJSON(found.value)
		default:
			err = found.words(a.stdout)
		}
		return cmp.Or(err, found.end)
	}
}

func printLine(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := fmt.Fprintln(w, text)
		return err
	}
}

func (a *app) printJSON(v any) error { return report.WriteIndented(a.stdout, v) }

// commandGroup makes a command that only has subcommands.
func commandGroup(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	cmd.Args = refuseArguments
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// argumentCount checks the number of a command's arguments.
func argumentCount(least, most int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("found %d arguments: give %s", len(args), what)
		}
		return nil
	}
}

// ownProgram returns the path of this program. wirelab starts it again as a worker.
func ownProgram() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find wirelab's own program, to start workers: %w", err)
	}
	return path, nil
}

// setCompletions sets the words for the shell's completion of a flag.
func setCompletions(cmd *cobra.Command, flag string, words []string) {
	setLazyCompletions(cmd, flag, func() []string { return words })
}

// setLazyCompletions sets the words that find returns when the shell asks for them.
func setLazyCompletions(cmd *cobra.Command, flag string, find func() []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return find(), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // a bug: the flag does not exist
	}
}

// usageErrorFor marks an error as a usage error, and points to the command's help.
func usageErrorFor(cmd *cobra.Command, err error) error {
	return usageError(fmt.Errorf("%w (see `%s --help`)", err, cmd.CommandPath()))
}

// explainFlagError replaces an error of package strconv by an explanation of the wrong flag value.
func explainFlagError(cmd *cobra.Command, err error) error {
	if invalid, is := errors.AsType[*pflag.InvalidValueError](err); is {
		return usageErrorFor(cmd, explainFlagValue(invalid.GetFlag(), invalid.GetValue(), errors.Unwrap(err)))
	}
	if unknown, is := errors.AsType[*pflag.NotExistError](err); is {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if meant, found := spelling.ClosestWord(unknown.GetSpecifiedName(), names); found {
			return usageErrorFor(cmd, fmt.Errorf("%w: did you mean --%s?", err, meant))
		}
	}
	return usageErrorFor(cmd, err)
}

// explainFlagValue returns an error that names a flag's wrong value and its accepted values.
func explainFlagValue(f *pflag.Flag, found string, err error) error {
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	wants, known := flagTypes[f.Value.Type()]
	if !known {
		if strings.HasPrefix(err.Error(), "want ") {
			return fmt.Errorf("%s: %w; found %q", name, err, found)
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%s: want %s; found %s", name, wants.what, quoteWrongItem(found, wants.isGood))
}

// flagTypes describes the accepted values of pflag's own flag types, by type name.
var flagTypes = map[string]struct {
	what   string
	isGood func(string) bool // checks one item of a list; nil if the flag is not a list
}{
	"bool":     {what: "true or false"},
	"duration": {what: "a time with its unit, such as 500ms, 2s or 1m"},
	"float64":  {what: "a number such as 5000"},
	"int":      {what: "a whole number such as 10"},
	"intSlice": {"whole numbers such as 1,10,50", func(text string) bool { _, err := strconv.Atoi(text); return err == nil }},
	"uint64":   {what: "a whole number from 0, such as 10"},
}

// quoteWrongItem quotes the first wrong item of a list, and the whole list.
func quoteWrongItem(found string, isGood func(string) bool) string {
	if isGood == nil {
		return strconv.Quote(found)
	}
	items := strings.Split(found, ",")
	i := slices.IndexFunc(items, func(item string) bool { return !isGood(item) })
	if i < 0 || len(items) == 1 {
		return strconv.Quote(found)
	}
	return fmt.Sprintf("%q in %q", items[i], found)
}

// refuseArguments returns an error if a command that only has subcommands gets an argument.
func refuseArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return fmt.Errorf("unknown command %q for %q: %s", args[0], cmd.CommandPath(), spelling.Suggest(args[0], names))
}

// replaceCobraCommands makes cobra's commands help and completion return errors for unknown names.
func replaceCobraCommands(root *cobra.Command) {
	root.SetHelpCommand(&cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			of, rest, err := root.Find(args)
			if err = cmp.Or(err, refuseArguments(of, rest)); err != nil {
				return usageError(err)
			}
			return of.Help()
		},
	})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			commandGroup(cmd)
		}
	}
}

// Exit codes. The text of `wirelab --help` explains them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitBreached    = 3
	exitInvalid     = 4
	exitInterrupted = 130 // 128 plus the number of the signal SIGINT, as in shells
)

// An app holds the input, the outputs and the settings of all subcommands.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	limits         check.Limits // thresholds for judging the trials of stored runs again
	began          bool         // true once a command has begun: the command line is then valid
}

// exitError carries an exit code. err is nil if every message has been printed already.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// usageError marks err as a mistake in the command line, or in a file that the command line names.
func usageError(err error) error { return exitError{exitUsage, err} }
