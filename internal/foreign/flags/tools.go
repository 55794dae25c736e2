// Package flags translates command lines of other load generators into arguments of wirelab load.
//
//	arguments typed behind wirelab load ──────────┐
//	a command line of another tool ───── Split ───┼─> scan ─> Settle ─> arguments, notes
//	a file that it wrote or reads ───── ReadFile ─┘   (the tool's table of flags)
//
// A [Tool] has one table with its flags, the shapes of their values, and their translations. This
// table translates pasted commands ([Tools.TranslateText]) and typed lines
// ([Tools.TranslateArguments]), and generates docs/load-from.md. Each tool has its own package.
//
// A letter has different meanings in different tools. So [Tools.TranslateArguments] parses the
// whole line with each tool's table, and chooses the best match; wirelab's own table comes first. A
// note names each flag whose meaning changes. The error for an unsupported flag names an
// alternative.
//
// This package translates text into arguments. It opens no files and runs no commands. It knows no
// tool's name except wirelab, and does not know how arguments are parsed.
package flags

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/pattern"
)

// Tools lists the supported tools. If several match a line equally well, TranslateArguments uses
// the first, so tools with more specific flags must come first.
type Tools []*Tool

// Names returns the names of the tools.
func (all Tools) Names() []string { return lists.Map(all, func(t *Tool) string { return t.Name }) }

func (all Tools) named(name string) *Tool {
	i := slices.IndexFunc(all, func(t *Tool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}

// command returns the tool with this name if wirelab reads its commands.
func (all Tools) command(name string) *Tool {
	if t := all.named(name); t != nil && !t.OnlyFiles {
		return t
	}
	return nil
}

// TranslateText translates a tool's command, or the text of its file, into arguments of wirelab
// load. The notes name flags that are left out or change their meaning. If name is empty, it
// guesses the tool. Variables in a command get their values from environment.
func (all Tools) TranslateText(name, text string, environment Environment) (arguments, notes []string, err error) {
	t := all.named(name)
	if t == nil {
		return nil, nil, fmt.Errorf("--from %s: %w", Excerpt(name), all.Unknown(name))
	}
	if strings.TrimSpace(text) == "" {
		return nil, nil, fmt.Errorf("--from %s: the command is missing: write it in quotes after the tool", name)
	}
	var words, leftOut []string
	var input *Input
	if t.OnlyFiles || t.ReadFile != nil && isObject(text) {
		words, err = t.ReadFile(text)
	} else if words, input, leftOut, err = all.pick(t, text, environment); err == nil {
		switch first := program(words[0]); {
		case first == t.Name:
			words = words[1:]
		case all.command(first) != nil:
			err = fmt.Errorf("this is a command of %s: write --from %s", first, first)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--from %s: %w", name, err)
	}
	l := t.scan(words, nil)
	l.input = input
	arguments, notes, err = t.translateWhole(l)
	if err != nil {
		err = fmt.Errorf("--from %s: %w", name, err)
	}
	return arguments, append(notes, leftOut...), err
}

// pick returns the words of the tool's command in a pipeline, its input, and notes about the commands
// that are left out.
func (all Tools) pick(t *Tool, text string, environment Environment) (words []string, input *Input, notes []string, err error) {
	commands, err := pipeline(text, environment)
	if err != nil {
		return nil, nil, nil, err
	}
	at := 0
	for i, c := range commands {
		if len(c.words) > 0 && program(c.words[0]) == t.Name {
			at = i
			break
		}
	}
	own := commands[at]
	if len(own.words) == 0 {
		return nil, nil, nil, errors.New("the text is only a comment: write the command in quotes")
	}
	if input, err = inputOf(commands[:at], own); err == nil && input != nil && t.ReadInput == nil {
		err = fmt.Errorf("what a pipe or < gives to %s is not read: name the file, as in -D FILE for data", t.Name)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	for i, c := range commands[at:] {
		if i > 0 {
			notes = append(notes, fmt.Sprintf("%s is left out: wirelab prints the figures itself", Excerpt(strings.Join(c.words, " "))))
		}
		if c.to != "" {
			notes = append(notes, fmt.Sprintf("> %s is left out: wirelab keeps a run in a directory (-o)", Excerpt(c.to)))
		}
	}
	return own.words, input, notes, nil
}

func (t *Tool) translateWhole(l line) (arguments, notes []string, err error) {
	c, err := t.translate(l, true)
	if err != nil {
		return nil, c.notes, err
	}
	return c.Arguments(), c.notes, nil
}

// Guess returns the name of the tool that a command or a file's text belongs to, or "".
func (all Tools) Guess(text string) string {
	if isObject(text) {
		return all.guessFile(text)
	}
	for piped := range strings.SplitSeq(strings.TrimPrefix(strings.TrimSpace(text), "$ "), "|") {
		for word := range strings.FieldsSeq(piped) {
			if t := all.command(program(word)); t != nil {
				return t.Name
			}
			break
		}
	}
	return ""
}

func (all Tools) guessFile(text string) string {
	var object map[string]json.RawMessage
	if len(text) > MaxFileBytes || json.Unmarshal([]byte(text), &object) != nil {
		return ""
	}
	for _, t := range all {
		if t.IsFile != nil && t.IsFile(object) {
			return t.Name
		}
	}
	return ""
}

// MaxFileBytes limits the size of a tool's file. A report of ghz may list a million calls.
const MaxFileBytes = 256 << 20

func isObject(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), "{") }

// TranslateArguments translates typed arguments of another load generator into arguments of wirelab
// load. It does not change unknown flags, and does not change a line with wirelab's own flags.
func (all Tools) TranslateArguments(arguments []string) (translated, notes []string, err error) {
	if len(arguments) == 0 || len(arguments) > MaxWords || slices.ContainsFunc(arguments, isFrom) {
		return arguments, nil, nil
	}
	own := arguments[:ownBefore(arguments)]
	if rest := arguments[len(own):]; len(rest) > 1 {
		if t := all.command(program(rest[0])); t != nil {
			translated, notes, err = t.translateWhole(t.scanWhole(rest[1:]))
			at := slices.Index(append(translated, "--"), "--")
			return slices.Insert(translated, at, own...), notes, err
		}
	}
	readings := all.read(arguments)
	best := readings[0]
	if len(arguments) > 1 && isProgram(arguments[0]) && isProgram(arguments[1]) {
		return nil, nil, all.Unknown(arguments[0]) // as in vegeta attack
	}
	if best.misfits > 0 && isProgram(arguments[0]) && slices.ContainsFunc(arguments[1:], isURL) {
		return nil, nil, all.Unknown(arguments[0])
	}
	if best.tool == Own {
		return arguments, nil, nil
	}
	if best.err != nil {
		return nil, best.notes, best.err
	}
	for _, other := range readings[1:] {
		if line := best.describeOtherReading(other); line != "" {
			return best.arguments, append(best.notes, line), nil
		}
	}
	return best.arguments, best.notes, nil
}

// ownBefore returns how many arguments belong to wirelab's own flags before the first other word.
func ownBefore(arguments []string) int {
	s := scanner{tool: Own, rest: arguments}
	for len(s.rest) > 0 && len(s.rest[0]) > 1 && s.rest[0][0] == '-' && s.rest[0] != "--" {
		s.next()
	}
	if slices.ContainsFunc(s.found, func(f found) bool { return f.misfit != "" }) {
		return 0
	}
	return len(arguments) - len(s.rest)
}

// isProgram matches a word that is a program's name rather than a host.
var isProgram = pattern.Matcher(`^[a-zA-Z][a-zA-Z0-9_-]*$`)

func isURL(argument string) bool { return strings.Contains(argument, "://") }

// Unknown returns the error for the command of a program that wirelab does not read.
func (all Tools) Unknown(name string) error {
	return fmt.Errorf("commands of %s are not read: want one of %s", Excerpt(name), strings.Join(all.Names(), ", "))
}

func isFrom(argument string) bool {
	return argument == "--from" || strings.HasPrefix(argument, "--from=")
}

// A reading is the result of parsing a line with one tool's flags.
type reading struct {
	*Command
	misfits, foreign int // misfits counts invalid flags; foreign counts flags of wirelab only
	arguments        []string
	err              error
}

// read parses a line with each tool's flags. The best result comes first.
func (all Tools) read(arguments []string) []reading {
	readings := []reading{}
	for _, t := range append(Tools{Own}, all...) {
		also := Own
		if t == Own {
			also = nil
		} else if t.OnlyFiles || t.Whole {
			continue
		}
		l := t.scan(arguments, also)
		r := reading{}
		for _, f := range l.found {
			if f.misfit != "" {
				r.misfits++
			} else if f.owned {
				r.foreign++
			}
		}
		r.Command, r.err = t.translate(l, false)
		r.arguments = r.Command.Arguments()
		if r.misfit {
			r.misfits++
		}
		if t == Own {
			r.foreign = -1 // the line was typed for wirelab, so its own reading comes first
		}
		readings = append(readings, r)
	}
	slices.SortStableFunc(readings, func(a, b reading) int {
		return cmp.Or(a.misfits-b.misfits, a.foreign-b.foreign)
	})
	return readings
}

// describeOtherReading describes the result of another tool that matches equally well. It returns
// "" if both results are the same.
func (r reading) describeOtherReading(other reading) string {
	if other.misfits > r.misfits || other.foreign > r.foreign || other.err != nil || other.tool.Single || other.tool == Own {
		return ""
	}
	differ := []setting{}
	for _, s := range other.settings {
		if !slices.ContainsFunc(r.settings, func(mine setting) bool {
			return mine.flag == s.flag && slices.Equal(mine.value, s.value)
		}) {
			differ = append(differ, s)
		}
	}
	if len(differ) == 0 {
		return ""
	}
	return "the line is read as a command of " + r.tool.Name + "; as a command of " + other.tool.Name + " it means " + show(differ)
}
