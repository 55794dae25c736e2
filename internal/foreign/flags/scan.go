package flags

import (
	"fmt"
	"strings"
)

// scan parses arguments with the tool's flags. If also is not nil, it tries the flags of also next.
func (t *Tool) scan(arguments []string, also *Tool) line {
	s := scanner{tool: t, also: also, rest: arguments}
	return s.scan()
}

// scanWhole parses the arguments of a whole command. Flags that the tool lacks are wirelab's own.
func (t *Tool) scanWhole(arguments []string) line {
	s := scanner{tool: t, also: Own, rest: arguments, whole: true}
	return s.scan()
}

func (s *scanner) scan() line {
	for len(s.rest) > 0 {
		s.next()
	}
	return s.line
}

// next parses an argument, and the value behind it.
func (s *scanner) next() {
	argument := s.rest[0]
	s.rest = s.rest[1:]
	switch {
	case argument == "--":
		s.operands = append(s.operands, s.rest...)
		s.rest = nil
	case len(argument) < 2 || argument[0] != '-':
		s.operands = append(s.operands, argument)
	case strings.HasPrefix(argument, "--"):
		s.long(argument, argument)
	default:
		s.short(argument)
	}
}

type scanner struct {
	line
	tool, also *Tool
	rest       []string
	whole      bool // the line is a whole command of the tool, so its own flags come first
}

func (s *scanner) long(name, written string) {
	name, value, given := strings.Cut(name, "=")
	written, _, _ = strings.Cut(written, "=")
	s.take(name, written, attached{value, given})
}

// short parses an argument with one dash: a name, a letter with its value, or several letters.
func (s *scanner) short(argument string) {
	name, _, _ := strings.Cut(argument, "=")
	if len(name) > 2 && (s.tool.OneDash && s.tool.option("-"+name) != nil) {
		s.long("-"+argument, argument)
		return
	}
	if !s.tool.Letters {
		s.long(argument, argument)
		return
	}
	const maxLetters = 20
	for letters, count := argument[1:], 0; letters != ""; count++ {
		if count == maxLetters {
			s.add(found{written: Excerpt(argument), misfit: "too many letters in one argument"})
			return
		}
		name := "-" + letters[:1]
		option, _ := s.lookup(name, letters[1:])
		if option == nil || option.Value.takes != requiredValue {
			if option == nil {
				s.add(found{written: argument, misfit: "wirelab does not know this flag: leave it out"})
				return
			}
			s.take(name, name, attached{})
			letters = letters[1:]
			continue
		}
		value := strings.TrimPrefix(letters[1:], "=")
		s.take(name, name, attached{value, letters[1:] != ""})
		return
	}
}

// An attached is a value that stands in the same argument as its flag.
type attached struct {
	value string
	given bool
}

// lookup finds a flag in the tool's table. It uses the other table if the tool lacks the flag, or
// if the value is valid only in the other table.
func (s *scanner) lookup(name, value string) (option *Option, owned bool) {
	option = s.tool.option(name)
	if s.also == nil || s.whole && option != nil && option.Value.fit(value) {
		return option, false
	}
	other := s.also.option(name)
	fits := option != nil && option.Value.fit(value)
	othersToo := other != nil && other.Value.fit(value)
	if othersToo && (!fits || s.tool.prefersOwn(name)) || option == nil && other != nil {
		return other, true
	}
	return option, false
}

func (s *scanner) take(name, written string, a attached) {
	next := a.value
	if !a.given && len(s.rest) > 0 {
		next = s.rest[0]
	}
	option, owned := s.lookup(name, next)
	f := found{written: written, option: option, owned: owned, value: a.value}
	switch {
	case option == nil:
		f.misfit = "wirelab does not know this flag: leave it out"
		if a.given {
			f.written += "=" + a.value
		}
	case option.Value.takes == noValue && a.given:
		if a.value == "false" { // =false turns a flag off, as in Go's package flag
			return
		}
		if a.value != "true" {
			f.misfit = "the flag takes no value"
		}
	case option.Value.takes == requiredValue && !a.given:
		if len(s.rest) == 0 {
			f.misfit = "the value of the flag is missing: want " + option.Value.name
			break
		}
		f.value, s.rest = s.rest[0], s.rest[1:]
	}
	if f.misfit == "" && option.Value.takes != noValue && !option.Value.fit(f.value) {
		f.misfit = "want " + option.Value.name
		if option.Value.name != User.name { // a value of this kind may contain a password
			f.misfit += fmt.Sprintf(", found %q", Excerpt(f.value))
		}
	}
	s.add(f)
}

func (s *scanner) add(f found) { s.line.found = append(s.line.found, f) }
