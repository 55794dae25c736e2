package flags

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Tools lists the tools that are read. If several tools fit a line equally well, Typed
// takes the first of them, so a tool with more particular flags stands before the others.
type Tools []*Tool

// Names returns the names of the tools.
func (all Tools) Names() []string {
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.Name
	}
	return names
}

func (all Tools) named(name string) *Tool {
	i := slices.IndexFunc(all, func(t *Tool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}

// command returns the tool of that name if its commands are read.
func (all Tools) command(name string) *Tool {
	if t := all.named(name); t != nil && !t.OnlyFiles {
		return t
	}
	return nil
}

// From turns a command of another tool, or the text of a file that it wrote or reads, into
// the arguments of wirelab load. The notes say what changes its sense or is left out, one line
// each. The command's first word may be left out.
func (all Tools) From(name, text string) (arguments, notes []string, err error) {
	t := all.named(name)
	if t == nil {
		return nil, nil, fmt.Errorf("--from %s: want one of %s", Excerpt(name), strings.Join(all.Names(), ", "))
	}
	if strings.TrimSpace(text) == "" {
		return nil, nil, fmt.Errorf("--from %s: there is no command: put it in quotes behind it", name)
	}
	var words []string
	if t.OnlyFiles || t.ReadFile != nil && isObject(text) {
		words, err = t.ReadFile(text)
	} else {
		words, err = all.wordsOf(t, text)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--from %s: %w", name, err)
	}
	c, err := t.translate(t.scan(words, nil), true)
	if err != nil {
		return nil, c.notes, fmt.Errorf("--from %s: %w", name, err)
	}
	return c.Arguments(), c.notes, nil
}

// wordsOf splits a command, and removes the tool's name.
func (all Tools) wordsOf(t *Tool, text string) ([]string, error) {
	words, err := Split(text)
	if err != nil {
		return nil, err
	}
	if len(words) == 0 {
		return nil, errors.New("there is only a comment: put the command in quotes behind it")
	}
	switch first := program(words[0]); {
	case first == t.Name:
		words = words[1:]
	case all.command(first) != nil:
		return nil, fmt.Errorf("the command is one of %s: write --from %s", first, first)
	}
	return words, nil
}

// program returns the name of a program by its path.
func program(word string) string { return strings.TrimSuffix(path.Base(word), ".exe") }

// Guess returns the name of the tool that a command or a file's text is of, or "".
func (all Tools) Guess(text string) string {
	if isObject(text) {
		return all.guessFile(text)
	}
	words, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(text), "$ "), "\n")
	for word := range strings.FieldsSeq(words) {
		if t := all.command(program(word)); t != nil {
			return t.Name
		}
		return ""
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

// MaxFileBytes limits the file of a tool: a report of ghz lists up to a million calls.
const MaxFileBytes = 256 << 20

// isObject reports whether a text is an object of JSON, and no command.
func isObject(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), "{") }
