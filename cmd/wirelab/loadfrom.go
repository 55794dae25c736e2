package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"wirelab.dev/internal/base/secret"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/foreign"
	"wirelab.dev/internal/foreign/flags"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/journey"
	"wirelab.dev/internal/wire/service/reach"
)

// translateLoadArguments translates another load generator's arguments: its flags, or the command
// or file after --from. Flags of wirelab take precedence over the translated ones.
func (a *app) translateLoadArguments(args []string) ([]string, error) {
	if len(args) == 0 || args[0] != "load" {
		return args, nil
	}
	rest, variables := args[1:], usedVariables{}
	if indexOfFrom(rest) < 0 {
		taken, notes, err := foreign.Commands.TranslateArguments(rest)
		a.printLines(notes)
		if err != nil || indexOfFrom(taken) < 0 {
			return append([]string{"load"}, taken...), err
		}
		rest = taken // a ghz command may name a configuration file
	}
	for range maxFromFiles {
		others, from, err := splitFrom(rest)
		if err != nil {
			return nil, err
		}
		if from == nil {
			fmt.Fprintf(a.stderr, "wirelab load %s\n", format.QuoteCommand(withoutSecrets(variables.hide(rest))))
			return append([]string{"load"}, rest...), nil
		}
		taken, notes, err := foreign.Commands.TranslateText(from.tool, from.text, variables.look)
		if err != nil {
			return nil, err
		}
		a.printLines(notes)
		rest = slices.Concat(taken, others)
	}
	return nil, errors.New("--from: the command in the file names another file: give that file instead")
}

// usedVariables holds the environment variables that a pasted command has used, with their values.
type usedVariables map[string]string

func (u usedVariables) look(name string) (value string, isSet bool) {
	value, isSet = os.LookupEnv(name)
	u[name] = value
	return value, isSet
}

// hide replaces the values by the names. It leaves values that are too short to be secrets.
func (u usedVariables) hide(args []string) []string {
	const shortest = 3
	hidden := slices.Clone(args)
	for name, value := range u {
		for i := range hidden {
			if len(value) >= shortest {
				hidden[i] = strings.ReplaceAll(hidden[i], value, "$"+name)
			}
		}
	}
	return hidden
}

// maxFromFiles limits how often a command line is translated: each file may name another file.
const maxFromFiles = 2 + 1

// indexOfFrom returns the index of --from in the arguments, or -1.
func indexOfFrom(args []string) int {
	return slices.IndexFunc(args, func(arg string) bool { return arg == "--from" || strings.HasPrefix(arg, "--from=") })
}

func (a *app) printLines(lines []string) {
	for _, line := range lines {
		fmt.Fprintln(a.stderr, line)
	}
}

// A foreignCommand is the command that --from names.
type foreignCommand struct {
	tool, text string
	at         int // index of the argument that contains the command
}

// splitFrom removes --from and its values from the arguments. The values are TOOL COMMAND, or only
// COMMAND if its first word is the tool. COMMAND may be the name of a file.
func splitFrom(args []string) (rest []string, from *foreignCommand, err error) {
	at := indexOfFrom(args)
	if at < 0 {
		return args, nil, nil
	}
	rest = slices.Clone(args[:at])
	given := args[at+1:]
	if value, is := strings.CutPrefix(args[at], "--from="); is {
		given = append([]string{value}, given...)
	}
	if len(given) == 0 {
		return nil, nil, errFromUsage
	}
	from = &foreignCommand{tool: given[0]}
	given = given[1:]
	if slices.Contains(foreign.Commands.Names(), from.tool) {
		if len(given) == 0 {
			return nil, nil, errFromUsage
		}
		from.text, given = given[0], given[1:]
	} else {
		from.tool, from.text = "", from.tool
	}
	from.at = len(args) - len(given) - 1
	if status, err := os.Stat(from.text); err == nil && status.Mode().IsRegular() {
		content, err := plan.ReadFile(from.text, flags.MaxFileBytes)
		if err != nil {
			return nil, nil, fmt.Errorf("--from: %w", err)
		}
		from.text = string(content)
	}
	if from.tool == "" {
		if from.tool = foreign.Commands.Guess(from.text); from.tool == "" {
			word, _, _ := strings.Cut(strings.TrimSpace(from.text), " ")
			return nil, nil, fmt.Errorf("--from: %w; if the command begins otherwise, give the tool first, as in --from curl 'curl http://…'", foreign.Commands.Unknown(word))
		}
	}
	return append(rest, given...), from, nil
}

var errFromUsage = errors.New("--from: want a tool and its command or file, as in --from curl 'curl http://127.0.0.1:8080/'")

// withoutSecrets returns arguments without secrets for printing, also in the command after --from.
func withoutSecrets(args []string) []string {
	kept := secret.HideInArguments(args)
	_, from, err := splitFrom(args)
	if err != nil || from == nil {
		return kept
	}
	command, joined := strings.CutPrefix(args[from.at], "--from=")
	command = flags.HideSecrets(command)
	if joined {
		command = "--from=" + command
	}
	kept[from.at] = command
	return kept
}

// journeyFlags holds the flags for a target that is a file of user steps.
type journeyFlags struct {
	target string // replaces the target that the file names

	name   string
	file   []byte
	script *journey.Script // the parsed user steps; nil means that the target is a URL
	drawn  bool
	folder string         // of the file
	grpc   service.Target // of gRPC steps; no host means that they go to the target
}

func (j *journeyFlags) register(f *pflag.FlagSet) {
	f.StringVar(&j.target, "target", "", "`URL` of the service, in place of the URL in a .yaml file")
}

const maxJourneyBytes = 64 << 10

// isJourney reports whether a target is the name of a file of user steps.
func isJourney(text string) bool {
	extension := filepath.Ext(text)
	return (extension == ".yaml" || extension == ".yml") && !strings.Contains(text, "://")
}

// read returns the target's URL. If text names a file of user steps, the URL is in that file.
func (j *journeyFlags) read(text string) (string, error) {
	if !isJourney(text) {
		if j.target != "" {
			return "", errors.New("--target only replaces the URL in a .yaml file: give the URL as TARGET")
		}
		return text, nil
	}
	var err error
	if j.file, err = plan.ReadFile(text, maxJourneyBytes); err != nil {
		return "", err
	}
	j.folder, j.name = filepath.Split(text)
	if j.script, err = journey.Parse(text, j.file); err != nil {
		return "", err
	}
	target := j.script.Target
	if j.target != "" {
		target = j.target
	}
	if target == "" {
		return "", fmt.Errorf("%s names no target: write `target: http://…`, or give --target URL", text)
	}
	j.grpc, err = j.script.CheckTargets(text, target)
	return target, err
}

// check returns an error if a flag cannot be combined with a file of user steps.
func (j *journeyFlags) check(s *scenario.Scenario, l *loadFlags) error {
	if j.script == nil {
		return nil
	}
	for _, flag := range []string{"method", "data", "data-file", "form", "content-type", "rows", "random", "targets", "call", "proto", "protoset"} {
		if l.given(flag) {
			return fmt.Errorf("--%s: the steps in %s set this: leave out the option", flag, j.name)
		}
	}
	if l.given("expect") && len(j.script.Methods()) > 0 {
		return fmt.Errorf("--expect cannot be used with steps of gRPC: write expect into the steps of %s", j.name)
	}
	if l.given("traceparent") {
		return fmt.Errorf("--traceparent cannot be used with steps: write the header into %s", j.name)
	}
	j.drawn = s.Parts[0].Load.Model != scenario.Closed
	least := slices.Min(s.Parts[0].Clients)
	if name, from := j.script.UnusedKind(least); name != "" && !j.drawn {
		return fmt.Errorf("-c %d: the weights give no client to %s: want %d or more, or other weights in %s", least, name, from, j.name)
	}
	return nil
}

// addJourney adds the user steps to the definition, with the descriptions of their gRPC methods.
func (l *loadFlags) addJourney(ctx context.Context, d *service.Definition) (err error) {
	j := &l.journey
	if j.script == nil {
		return nil
	}
	d.Journey = &service.Journey{Name: j.name, File: j.file, Drawn: j.drawn}
	methods := j.script.Methods()
	if len(methods) == 0 {
		return nil
	}
	where := d
	if j.grpc.Host != "" {
		if where, err = l.findService(ctx, j.grpc); err != nil {
			return err
		}
		d.Journey.GRPC = where
	}
	source := reach.Method{Proto: j.beside(j.script.Proto), Protoset: j.beside(j.script.Protoset)}
	err = l.waiting.Do(ctx, func() (err error) {
		d.Journey.Methods, err = source.DescribeAll(ctx, where, methods, d.Requests[0].Header)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", j.name, err)
	}
	return nil
}

// beside returns the path of a file that the file of user steps names.
func (j *journeyFlags) beside(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(j.folder, name)
}

// commandLine returns the user's command without secrets, for the run's manifest.
func commandLine() []string {
	line := append([]string{"wirelab"}, withoutSecrets(os.Args[1:])...)
	for i, word := range line {
		if strings.ContainsAny(word, " \t") {
			line[i] = fmt.Sprintf("%q", word)
		}
	}
	return line
}
