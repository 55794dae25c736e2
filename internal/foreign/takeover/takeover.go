package takeover

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// tools is all that is read. Habits takes the first of those that fit a line equally well,
// so one whose flags are the more particular stands before the others.
var tools = []*tool{ghz, grpcurl, wrk, bombardier, oha, hey, h2load, fortio, curl}

// k6Name is the tool of which a file is read, but no command.
const k6Name = "k6"

// Names are the tools that From knows.
func Names() []string {
	names := []string{}
	for _, t := range tools {
		names = append(names, t.name)
	}
	return append(names, k6Name)
}

func named(name string) *tool {
	for _, t := range tools {
		if t.name == name {
			return t
		}
	}
	return nil
}

// From turns a command of another tool, or the text of a file that it wrote or reads, into
// the arguments of wirelab load. What changes its sense or is left out is told, one line
// each. The command's first word may be left out.
func From(name, text string) (arguments, told []string, err error) {
	if name == k6Name {
		return fromK6(text)
	}
	t := named(name)
	if t == nil {
		return nil, nil, fmt.Errorf("--from %s: want one of %s", excerpt(name), strings.Join(Names(), ", "))
	}
	if strings.TrimSpace(text) == "" {
		return nil, nil, fmt.Errorf("--from %s: there is no command: put it in quotes behind it", name)
	}
	var words []string
	if t == ghz && strings.HasPrefix(strings.TrimSpace(text), "{") {
		words, err = ghzFile(text)
	} else {
		words, err = commandOf(t, text)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--from %s: %w", name, err)
	}
	c, err := t.translate(t.scan(words, nil), true)
	if err != nil {
		return nil, c.lines, fmt.Errorf("--from %s: %w", name, err)
	}
	return c.arguments(), c.lines, nil
}

// commandOf splits a command, and takes the tool's name off.
func commandOf(t *tool, text string) ([]string, error) {
	words, err := Split(text)
	if err != nil {
		return nil, err
	}
	if len(words) == 0 {
		return nil, errors.New("there is only a comment: put the command in quotes behind it")
	}
	switch first := program(words[0]); {
	case first == t.name:
		words = words[1:]
	case named(first) != nil:
		return nil, fmt.Errorf("the command is one of %s: write --from %s", first, first)
	}
	return words, nil
}

// program is the name of a program by its path.
func program(word string) string { return strings.TrimSuffix(path.Base(word), ".exe") }

// Guess says which tool a command or a file's text is of; empty: none that is known.
func Guess(text string) string {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return guessFile(text)
	}
	words, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(text), "$ "), "\n")
	for word := range strings.FieldsSeq(words) {
		if name := program(word); named(name) != nil {
			return name
		}
		return ""
	}
	return ""
}
