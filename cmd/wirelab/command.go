package main

import (
	"cmp"
	"context"
	"encoding/json"
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
)

// A finding is a command's output: text, or with --json the value, if it has one.
type finding struct {
	value any
	words func(w io.Writer) error
	end   error // error to return after printing
}

// finds makes a command that prints the result of find. form describes the output of --json.
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

const oneObject = "one JSON object"

func line(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := fmt.Fprintln(w, text)
		return err
	}
}

func (a *app) printJSON(v any) error {
	encoder := json.NewEncoder(a.stdout)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// group makes a command that only has subcommands.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	cmd.Args = onlyCommands
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// wants checks the number of a command's arguments.
func wants(least, most int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("name %s; found %d arguments", what, len(args))
		}
		return nil
	}
}

// ownProgram returns the path of this program, which is started again as a worker.
func ownProgram() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find wirelab's own program, to start workers: %w", err)
	}
	return path, nil
}

// partCommand makes a hidden command that wirelab itself starts.
func (a *app) partCommand(use, short string, play func(context.Context, io.Reader, io.Writer) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return play(cmd.Context(), a.stdin, a.stdout) },
	}
}

// complete sets the words for the shell's completion of a flag.
func complete(cmd *cobra.Command, flag string, words []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag does not exist: our own mistake
	}
}

// usageOf marks an error as a usage error, and points to the command's help.
func usageOf(cmd *cobra.Command, err error) error {
	return usage(fmt.Errorf("%w (see `%s --help`)", err, cmd.CommandPath()))
}

// badFlag explains a wrong flag. pflag returns errors of package strconv.
func badFlag(cmd *cobra.Command, err error) error {
	if invalid, is := errors.AsType[*pflag.InvalidValueError](err); is {
		return usageOf(cmd, badValue(invalid.GetFlag(), invalid.GetValue(), errors.Unwrap(err)))
	}
	if unknown, is := errors.AsType[*pflag.NotExistError](err); is {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if meant, found := spelling.Meant(unknown.GetSpecifiedName(), names); found {
			return usageOf(cmd, fmt.Errorf("%w: did you mean --%s?", err, meant))
		}
	}
	return usageOf(cmd, err)
}

// badValue describes the values that a flag accepts. This program's flag types do so themselves.
func badValue(f *pflag.Flag, found string, err error) error {
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	wants, known := wanted[f.Value.Type()]
	if !known {
		if strings.HasPrefix(err.Error(), "want ") {
			return fmt.Errorf("%s: %w; found %q", name, err, found)
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%s: want %s; found %s", name, wants.what, whatIsWrong(found, wants.isGood))
}

// wanted describes the values of pflag's types, by type.
var wanted = map[string]struct {
	what   string
	isGood func(string) bool // checks an item of a list; nil: not a list
}{
	"bool":     {what: "true or false"},
	"duration": {what: "a time with its unit, such as 500ms, 2s or 1m"},
	"float64":  {what: "a number such as 5000"},
	"int":      {what: "a whole number such as 10"},
	"intSlice": {"whole numbers such as 1,10,50", func(text string) bool { _, err := strconv.Atoi(text); return err == nil }},
	"uint64":   {what: "a whole number from 0, such as 10"},
}

// whatIsWrong quotes the first bad item, and the list that contains it.
func whatIsWrong(found string, isGood func(string) bool) string {
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

// onlyCommands refuses arguments of a command that has only subcommands.
func onlyCommands(cmd *cobra.Command, args []string) error {
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

// commandsOfCobra makes cobra's own commands answer wrong names like the others.
func commandsOfCobra(root *cobra.Command) {
	root.SetHelpCommand(&cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			of, rest, err := root.Find(args)
			if err = cmp.Or(err, onlyCommands(of, rest)); err != nil {
				return usage(err)
			}
			return of.Help()
		},
	})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			group(cmd)
		}
	}
}

// The exit codes, as in `wirelab --help`.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitBreached    = 3
	exitInvalid     = 4
	exitInterrupted = 130 // 128 plus the number of SIGINT, as in shells
)

// An app holds the streams of all subcommands.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	limits         check.Limits // limits for judging runs again
	began          bool         // a command has begun, so the command line was correct
}

// exitError carries an exit code. Its error is nil if everything has been printed already.
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

// usage marks an error as an error in the command line or in a file that it names.
func usage(err error) error { return exitError{exitUsage, err} }
