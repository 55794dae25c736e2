package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"wirelab.dev/internal/base/spelling"
)

// usageOf marks an error as usage does, and points to the command's help.
func usageOf(cmd *cobra.Command, err error) error {
	return usage(fmt.Errorf("%w (see `%s --help`)", err, cmd.CommandPath()))
}

// badFlag says what is wrong with a flag in the words of this program. Those of pflag are
// of Go's package strconv.
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

// badValue says what a flag wants and what was found. Errors of this program's own flag types
// say that already, or begin with the wanted values.
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
	isGood func(string) bool // one of a list's items; nil: it is no list
}{
	"bool":     {what: "true or false"},
	"duration": {what: "a time with its unit, such as 500ms, 2s or 1m"},
	"float64":  {what: "a number such as 5000"},
	"int":      {what: "a whole number such as 10"},
	"intSlice": {"whole numbers such as 1,10,50", func(text string) bool { _, err := strconv.Atoi(text); return err == nil }},
	"uint64":   {what: "a whole number from 0, such as 10"},
}

// whatIsWrong quotes the first item that is not good, and the list that it is in.
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

// commandsOfCobra makes the commands that cobra would add answer wrong names as the others do.
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
			cmd.Args = onlyCommands
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}
