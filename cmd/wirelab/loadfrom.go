package main

import (
	"errors"
	"fmt"
	"net/url"
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
)

// asLoad translates load's arguments as users of other load generators type them: flags of their
// tools, or after --from a command or a file of a tool. wirelab's flags beside --from take
// precedence.
func (a *app) asLoad(args []string) ([]string, error) {
	if len(args) == 0 || args[0] != "load" {
		return args, nil
	}
	rest := args[1:]
	if fromAt(rest) < 0 {
		taken, told, err := foreign.Commands.Typed(rest)
		a.sayLines(told)
		if err != nil || fromAt(taken) < 0 {
			return append([]string{"load"}, taken...), err
		}
		rest = taken // a typed line of ghz may name its file
	}
	for range mostFrom {
		others, from, err := splitFrom(rest)
		if err != nil {
			return nil, err
		}
		if from == nil {
			fmt.Fprintf(a.stderr, "wirelab load %s\n", format.Command(withoutSecrets(rest)))
			return append([]string{"load"}, rest...), nil
		}
		taken, told, err := foreign.Commands.From(from.tool, from.text)
		if err != nil {
			return nil, err
		}
		a.sayLines(told)
		rest = slices.Concat(taken, others)
	}
	return nil, errors.New("--from: the file names another file with a command: give the other file")
}

// mostFrom limits chains of files with commands: a ghz command may name its configuration.
const mostFrom = 2 + 1

// fromAt returns the index of --from in the arguments, or -1.
func fromAt(args []string) int {
	return slices.IndexFunc(args, func(arg string) bool { return arg == "--from" || strings.HasPrefix(arg, "--from=") })
}

func (a *app) sayLines(lines []string) {
	for _, line := range lines {
		fmt.Fprintln(a.stderr, line)
	}
}

// A foreignCommand is the command that --from names.
type foreignCommand struct {
	tool, text string
	at         int // index of the argument after which the command ends
}

// splitFrom finds --from in the arguments: --from TOOL COMMAND, or --from COMMAND if its first
// word is the tool. COMMAND may be a file.
func splitFrom(args []string) (rest []string, from *foreignCommand, err error) {
	at := fromAt(args)
	if at < 0 {
		return args, nil, nil
	}
	rest = slices.Clone(args[:at])
	given := args[at+1:]
	if value, is := strings.CutPrefix(args[at], "--from="); is {
		given = append([]string{value}, given...)
	}
	if len(given) == 0 {
		return nil, nil, errFrom
	}
	from = &foreignCommand{tool: given[0]}
	given = given[1:]
	if slices.Contains(foreign.Commands.Names(), from.tool) {
		if len(given) == 0 {
			return nil, nil, errFrom
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
			return nil, nil, fmt.Errorf("--from: the tool is unknown: name it, as in --from curl 'curl http://…': %s", strings.Join(foreign.Commands.Names(), ", "))
		}
	}
	return append(rest, given...), from, nil
}

var errFrom = errors.New("--from: want a tool and its command or file, as in --from curl 'curl http://127.0.0.1:8080/'")

// withoutSecrets returns a command line for reports, without secrets, even in --from.
func withoutSecrets(args []string) []string {
	kept := secret.HideIn(args)
	_, from, err := splitFrom(args)
	if err != nil || from == nil {
		return kept
	}
	command, joined := strings.CutPrefix(args[from.at], "--from=")
	if words, err := flags.Split(command); err != nil {
		command = secret.Hidden
	} else if len(words) > 1 {
		command = format.Command(secret.HideIn(words))
	}
	if joined {
		command = "--from=" + command
	}
	kept[from.at] = command
	return kept
}

// journeyFlags holds flags for a target that is a file of user steps.
type journeyFlags struct {
	target string // replaces the file's target

	name   string
	file   []byte
	script *journey.Script // nil: the target is not such a file
	drawn  bool
}

func (j *journeyFlags) register(f *pflag.FlagSet) {
	f.StringVar(&j.target, "target", "", "`URL` of the service, in place of the URL in a .yaml file")
}

const mostJourney = 64 << 10

// read reads the target's file, if it is one, and returns the target in the file.
func (j *journeyFlags) read(text string) (string, error) {
	if extension := filepath.Ext(text); extension != ".yaml" && extension != ".yml" || strings.Contains(text, "://") {
		if j.target != "" {
			return "", errors.New("--target is only for a .yaml file: give the URL itself")
		}
		return text, nil
	}
	var err error
	if j.file, err = plan.ReadFile(text, mostJourney); err != nil {
		return "", err
	}
	j.name = filepath.Base(text)
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
	where, err := url.Parse(target)
	if err != nil || where.Path != "" && where.Path != "/" || where.RawQuery != "" || where.Scheme != "http" && where.Scheme != "https" {
		return "", fmt.Errorf("%s: found the target %q: want http:// or https:// with a host and no path: steps have the paths", text, target)
	}
	return target, nil
}

// check compares the load with the file.
func (j *journeyFlags) check(s *scenario.Scenario, l *loading) error {
	if j.script == nil {
		return nil
	}
	for _, flag := range []string{"method", "data", "data-file", "content-type", "rows", "random", "call", "proto", "protoset"} {
		if l.given(flag) {
			return fmt.Errorf("--%s: the steps in %s set that", flag, j.name)
		}
	}
	if l.given("traceparent") {
		return fmt.Errorf("--traceparent: not with steps: write the header into %s", j.name)
	}
	j.drawn = s.Parts[0].Load.Model != scenario.Closed
	least := slices.Min(s.Parts[0].Clients)
	if name, from := j.script.Missing(least); name != "" && !j.drawn {
		return fmt.Errorf("-c %d: the weights leave no user for %s: want %d or more, or other weights in %s", least, name, from, j.name)
	}
	return nil
}

func (j *journeyFlags) apply(d *service.Definition) {
	if j.script != nil {
		d.Journey = &service.Journey{Name: j.name, File: j.file, Drawn: j.drawn}
	}
}

// commandLine returns the typed command for the manifest.
func commandLine() []string {
	line := append([]string{"wirelab"}, withoutSecrets(os.Args[1:])...)
	for i, word := range line {
		if strings.ContainsAny(word, " \t") {
			line[i] = fmt.Sprintf("%q", word)
		}
	}
	return line
}
