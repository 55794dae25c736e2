package flags

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/base/pattern"
)

// Limits of a command line. Commands written by people are much shorter.
const (
	MaxTextBytes = 1 << 20
	MaxWords     = 4096
)

// Split splits a command into words as a POSIX shell does. It handles quotes, backslashes,
// continued lines, and $'…'. It replaces variables that the environment has. It refuses other text
// that a shell would replace, because it executes nothing.
//
// It does not use the parser of mvdan.cc/sh, because that parser is recursive: many nested $( in a
// text overflow the stack and end the program.
func Split(text string, environment Environment) ([]string, error) {
	s, err := split(text, environment, false)
	if err != nil {
		return nil, err
	}
	return s.piped[0].words, nil
}

// split splits a command, or a pipeline if pipes is true. It returns at least one command.
func split(text string, environment Environment, pipes bool) (*splitter, error) {
	if len(text) > MaxTextBytes {
		return nil, fmt.Errorf("the command has %d bytes, but the limit is %d: put its data into a file", len(text), MaxTextBytes)
	}
	s := &splitter{environment: environment, pipes: pipes, rest: strings.TrimPrefix(strings.TrimSpace(text), "$ ")}
	for s.rest != "" && s.count <= MaxWords {
		if err := s.step(); err != nil {
			return nil, err
		}
	}
	if s.endWord(); s.count > MaxWords {
		return nil, fmt.Errorf("the command has more than %d words", MaxWords)
	}
	s.endCommand()
	return s, nil
}

// A pipedCommand is one command of a pipeline.
type pipedCommand struct {
	words    []string
	from, to string // files that < and > name; empty means none
}

// program returns the name of the program that a command begins with.
func program(word string) string { return strings.TrimSuffix(path.Base(word), ".exe") }

// pipeline splits a text into the commands of a pipeline. Most texts have one command.
func pipeline(text string, environment Environment) ([]pipedCommand, error) {
	s, err := split(text, environment, true)
	if err != nil {
		return nil, err
	}
	switch last := s.piped[len(s.piped)-1]; {
	case s.redirect != "":
		return nil, fmt.Errorf("no file follows %s: name it", s.redirect)
	case len(last.words) == 0 && len(s.piped) > 1:
		return nil, errors.New("no command follows the last pipe (|): give the whole text")
	}
	return s.piped, nil
}

// connect parses a pipe or a redirection.
func (s *splitter) connect() error {
	word := s.word.String()
	switch sign := s.rest[0]; {
	case strings.HasPrefix(s.rest, "||"):
		return errors.New("|| begins another command: give one command or one pipeline")
	case strings.HasPrefix(s.rest, "<<"), strings.HasPrefix(s.rest, "<("), strings.HasPrefix(s.rest, ">("):
		return fmt.Errorf("%q is not read: write the text into a file, and name the file", s.rest[:2])
	case sign == '|':
		switch s.endWord(); {
		case s.redirect != "":
			return fmt.Errorf("no file follows %s: name it", s.redirect)
		case len(s.words) == 0:
			return errors.New("no command stands before the pipe (|): give the whole text")
		}
		s.endCommand()
		s.rest = s.rest[1:]
		return nil
	case sign == '>' && (word == "1" || word == "2"): // the number of an output
		s.word.Reset()
		s.inWord = false
	}
	s.endWord()
	if s.redirect != "" {
		return fmt.Errorf("no file follows %s: name it", s.redirect)
	}
	s.redirect = s.rest[:1]
	s.rest = strings.TrimPrefix(s.rest[1:], ">")
	for _, other := range []string{"&1", "&2"} {
		if after, is := strings.CutPrefix(s.rest, other); is && s.redirect == ">" {
			s.rest, s.redirect = after, ""
		}
	}
	return nil
}

func (s *splitter) endCommand() {
	s.current.words, s.words = s.words, nil
	s.piped, s.current = append(s.piped, s.current), pipedCommand{}
}

// An Environment returns the value of an environment variable, and whether the variable is set. Nil
// means that there are no variables.
type Environment func(name string) (value string, isSet bool)

type splitter struct {
	environment Environment
	replaced    int // bytes of the values of variables
	rest        string
	pipes       bool // the text may be a pipeline
	piped       []pipedCommand
	current     pipedCommand
	redirect    string   // the redirection whose file is the next word; empty means none
	words       []string // of the current command
	count       int      // of all words
	word        strings.Builder
	inWord      bool // the current word has begun; it may be empty, as in ''
}

func (s *splitter) endWord() {
	if s.inWord {
		s.count++
		switch word := s.word.String(); s.redirect {
		case "<":
			s.current.from = word
		case ">":
			s.current.to = word
		default:
			s.words = append(s.words, word)
		}
		s.redirect = ""
	}
	s.word.Reset()
	s.inWord = false
}

func (s *splitter) add(text string) {
	s.word.WriteString(text)
	s.inWord = true
}

// step parses the next piece outside quotes: a space, a comment, or a part of a word.
func (s *splitter) step() error {
	first := s.rest[0]
	switch {
	case first == ' ' || first == '\t' || first == '\r':
		s.endWord()
		s.rest = s.rest[1:]
		return nil
	case first == '\n':
		s.endWord()
		if s.rest = strings.TrimSpace(s.rest); s.rest != "" && len(s.words) > 0 {
			return fmt.Errorf("a second command begins at %q: give one command, or end the line before it with a backslash", Excerpt(s.rest))
		}
		return nil
	case first == '#' && !s.inWord:
		end := strings.IndexByte(s.rest, '\n')
		if end < 0 {
			end = len(s.rest)
		}
		s.rest = s.rest[end:]
		return nil
	case s.pipes && strings.IndexByte("|<>", first) >= 0:
		return s.connect()
	case strings.HasPrefix(s.rest, "$'"):
		return s.ansi()
	case first == '$':
		began := s.inWord
		if is, err := s.variable(); is || err != nil {
			if text := s.word.String(); err == nil && !began && strings.HasPrefix(text, "-") {
				return errors.New("the value of a variable begins with a dash, so it would be read as a flag: put the variable in quotes behind its flag")
			}
			return err
		}
	}
	if err := s.refuse(); err != nil {
		return err
	}
	switch first {
	case '\'':
		return s.single()
	case '"':
		return s.double()
	case '\\':
		return s.backslash()
	}
	s.addUntil(" \t\r\n'\"\\|;&<>()`$~^#")
	return nil
}

// addUntil adds the next byte, and the text up to the next special character.
func (s *splitter) addUntil(special string) {
	end := strings.IndexAny(s.rest[1:], special) + 1
	if end == 0 {
		end = len(s.rest)
	}
	s.add(s.rest[:end])
	s.rest = s.rest[end:]
}

// refuse returns an error if a shell would do more at this position than split words.
func (s *splitter) refuse() error {
	switch first := s.rest[0]; first {
	case '|':
		return errors.New("pipes (|) are not supported: give only the command that calls, with its data by -d or from a file")
	case ';', '&':
		return fmt.Errorf("%q ends a command here: if it belongs to a URL, put the URL in quotes; otherwise give one command", string(first))
	case '<', '>':
		return fmt.Errorf("%q is a redirection, which is not supported: name the file, as in -D FILE for data", string(first))
	case '(', ')':
		return fmt.Errorf("%q means a subshell here: put it in quotes", string(first))
	case '`', '$':
		return s.refuseExpansion()
	case '~':
		if !s.inWord && (len(s.rest) == 1 || s.rest[1] == '/') {
			return errors.New("~ stands for a home directory: write the full path")
		}
	case '^':
		if len(s.rest) > 1 && strings.IndexByte("\r\n\"&|^%", s.rest[1]) >= 0 {
			return errors.New("^ escapes in a Windows command prompt: copy the command for a POSIX shell (in a browser: Copy as cURL (bash))")
		}
	}
	return nil
}

var variable = pattern.Lazy(`^\$(\{[^}]*\}?|\w+|.)`)

// named matches a variable that a shell replaces by its value, as in $NAME or ${NAME}.
var named = pattern.Lazy(`^\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})`)

// variable adds the value of a variable at this position. It returns false if there is none. The
// value is not split into words.
func (s *splitter) variable() (is bool, err error) {
	found := named().FindStringSubmatch(s.rest)
	if found == nil || s.environment == nil {
		return false, nil
	}
	name := found[1] + found[2]
	value, isSet := s.environment(name)
	if !isSet {
		return false, fmt.Errorf("the environment variable %s is not set: set it, or write its value", Excerpt(name))
	}
	if s.replaced += len(value); s.replaced > MaxTextBytes {
		return false, fmt.Errorf("the values of variables up to %s have %d bytes, but the limit is %d: put the data into a file", Excerpt(name), s.replaced, MaxTextBytes)
	}
	s.rest = s.rest[len(found[0]):]
	s.add(value)
	return true, nil
}

// refuseExpansion returns an error for text that a shell replaces even inside double quotes.
func (s *splitter) refuseExpansion() error {
	if s.rest[0] == '`' {
		return errors.New("a command between backticks is not run: write its output")
	}
	if len(s.rest) == 1 {
		return nil
	}
	switch next := s.rest[1]; {
	case next == '(':
		return errors.New("a command in $(…) is not run: write its output")
	case next == '{' || next == '_' || isLetter(next) || isDigit(next) || strings.IndexByte("@*#?$!-", next) >= 0:
		return fmt.Errorf("a variable (%s) is not replaced: write its value instead", Excerpt(variable().FindString(s.rest)))
	}
	return nil
}

func (s *splitter) single() error {
	inside, after, closed := strings.Cut(s.rest[1:], "'")
	if !closed {
		return fmt.Errorf("the quote ' before %q is not closed", Excerpt(inside))
	}
	s.add(inside)
	s.rest = after
	return nil
}

func (s *splitter) double() error {
	opened := s.rest[1:]
	s.rest = opened
	s.inWord = true
	for s.rest != "" {
		switch s.rest[0] {
		case '"':
			s.rest = s.rest[1:]
			return nil
		case '\\':
			if len(s.rest) > 1 && strings.IndexByte("$`\"\\\n", s.rest[1]) < 0 {
				s.add(`\`)
				s.rest = s.rest[1:]
				continue
			}
			if err := s.backslash(); err != nil {
				return err
			}
			continue
		case '`', '$':
			if is, err := s.variable(); is {
				continue
			} else if err != nil {
				return err
			}
			if err := s.refuseExpansion(); err != nil {
				return err
			}
		}
		s.addUntil("\"\\`$")
	}
	return fmt.Errorf("the quote \" before %q is not closed", Excerpt(opened))
}

// backslash adds the byte after a backslash unchanged. A backslash at a line's end joins the lines.
func (s *splitter) backslash() error {
	after := s.rest[1:]
	switch {
	case after == "":
		return errors.New("the command ends with a backslash: its next line is missing")
	case strings.HasPrefix(after, "\r\n"):
		s.rest = after[2:]
	case after[0] == '\n':
		s.rest = after[1:]
	default:
		s.add(after[:1])
		s.rest = after[1:]
	}
	return nil
}

// ansi parses $'…', the quotes of bash that browsers use for "Copy as cURL".
func (s *splitter) ansi() error {
	opened := s.rest[2:]
	s.rest = opened
	s.inWord = true
	for s.rest != "" {
		switch {
		case s.rest[0] == '\'':
			s.rest = s.rest[1:]
			return nil
		case s.rest[0] == '\\' && len(s.rest) > 1:
			s.rest = s.rest[1:]
			s.ansiEscape()
		default:
			s.addUntil(`'\`)
		}
	}
	return fmt.Errorf("the quote $' before %q is not closed", Excerpt(opened))
}

// ansiEscape parses the characters after a backslash inside $'…'.
func (s *splitter) ansiEscape() {
	letter := s.rest[0]
	s.rest = s.rest[1:]
	if at := strings.IndexByte("abefnrtvE", letter); at >= 0 {
		s.add("\a\b\x1b\f\n\r\t\v\x1b"[at : at+1])
		return
	}
	switch {
	case letter == 'x':
		if code, found := s.digits(2, 16); found {
			s.add(string([]byte{byte(code)}))
			return
		}
	case letter == 'u' || letter == 'U':
		limit := 4
		if letter == 'U' {
			limit = 8
		}
		if code, found := s.digits(limit, 16); found && code <= utf8.MaxRune {
			s.add(string(rune(code)))
			return
		}
	case letter >= '0' && letter <= '7':
		s.rest = string(letter) + s.rest
		code, _ := s.digits(3, 8)
		s.add(string([]byte{byte(code)}))
		return
	case strings.IndexByte(`\'"?`, letter) >= 0:
		s.add(string(letter))
		return
	}
	s.add(`\` + string([]byte{letter}))
}

func (s *splitter) digits(limit, base int) (code uint64, found bool) {
	end := 0
	for end < limit && end < len(s.rest) {
		if _, err := strconv.ParseUint(s.rest[end:end+1], base, 8); err != nil {
			break
		}
		end++
	}
	code, err := strconv.ParseUint(s.rest[:end], base, 64)
	s.rest = s.rest[end:]
	return code, err == nil
}
