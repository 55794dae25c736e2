package takeover

import (
	"fmt"
	"slices"
	"strings"
)

// option is a flag of a tool and what it becomes.
type option struct {
	names   string // as in "-c --concurrency"; a single letter with one dash, else with two
	value   shape  // what follows
	becomes rule
}

// yields reports whether wirelab's own flag of the name comes first where the line is typed
// behind wirelab load: what follows may be meant either way, and the tool's sense would drop
// or change it.
func (t *tool) yields(name string) bool { return slices.Contains(strings.Fields(t.yield), name) }

// rule says what a flag becomes.
type rule struct {
	page  string // for the page: in words, or wirelab's flag
	apply func(c *command, value string) error
}

// to is a flag of wirelab with the same value.
func to(flag string) rule {
	return rule{code(flag), func(c *command, value string) error {
		c.set(flag, value)
		return nil
	}}
}

// on is a flag of wirelab without a value, or with one that the tool's flag implies.
func on(flag string, value ...string) rule {
	return rule{code(strings.Join(append([]string{flag}, value...), " ")), func(c *command, _ string) error {
		c.set(flag, value...)
		return nil
	}}
}

// inSeconds is a flag of wirelab that takes a duration; the tool's is in seconds, where it
// has no unit.
func inSeconds(flag string) rule {
	return rule{code(flag), func(c *command, value string) error {
		if isNumber(value) {
			value += "s"
		}
		c.set(flag, value)
		return nil
	}}
}

// asHeader is a field of the request's header.
func asHeader(name string) rule {
	return rule{code("-H '" + name + ": …'"), func(c *command, value string) error {
		c.set("-H", name+": "+value)
		return nil
	}}
}

// without leaves a flag out: nothing that is measured changes by it, or wirelab does so
// anyway.
func without(why string) rule {
	return rule{"left out: " + why, func(c *command, _ string) error {
		c.tell("%s is left out: %s", c.written, why)
		return nil
	}}
}

// no refuses a flag, and says what to do.
func no(instead string) rule {
	return rule{"refused: " + instead, func(c *command, _ string) error {
		return c.refusal(instead)
	}}
}

// later keeps the value for the tool's settle.
func later(key, page string) rule {
	return rule{page, func(c *command, value string) error {
		c.keep(key, value)
		return nil
	}}
}

// by is a rule that needs more than its table's line.
func by(page string, apply func(c *command, value string) error) rule {
	return rule{page, apply}
}

func code(text string) string { return "`" + text + "`" }

// tool is a program whose users come here.
type tool struct {
	name    string
	purpose string // what its commands do, for the page
	options []option

	// oneDash says that -name is --name, as in Go's package flag; letters are not put
	// together then. With both, a known name comes before letters.
	oneDash, letters bool

	// yield are the flags that mean what wirelab means, where that fits too.
	yield string
	// fits says whether the operands and flags of a line are such as the tool takes.
	fits func(c *command) bool
	// usual adds what the tool does where no flag says otherwise.
	usual func(c *command)
	// settle does what needs the whole line.
	settle func(c *command) error
}

func (t *tool) option(name string) *option {
	for i := range t.options {
		for known := range strings.FieldsSeq(t.options[i].names) {
			if known == name {
				return &t.options[i]
			}
		}
	}
	return nil
}

// found is a flag on a command line.
type found struct {
	written string // with its dashes
	option  *option
	value   string
	misfit  string // why it is none of the tool's, or its value does not fit
	owned   bool   // it is wirelab's, not the tool's
}

// line is a command line as a tool's table reads it.
type line struct {
	found    []found
	operands []string
}

// scan reads arguments by the tool's table, and what that lacks by the table of also, which
// may be nil.
func (t *tool) scan(arguments []string, also *tool) line {
	s := scanner{tool: t, also: also, rest: arguments}
	for len(s.rest) > 0 {
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
	return s.line
}

type scanner struct {
	line
	tool, also *tool
	rest       []string
}

// long reads a flag with a name.
func (s *scanner) long(name, written string) {
	name, value, given := strings.Cut(name, "=")
	written, _, _ = strings.Cut(written, "=")
	s.take(name, written, attached{value, given})
}

// short reads what has one dash: a name, a letter with its value, or letters put together.
func (s *scanner) short(argument string) {
	name, _, _ := strings.Cut(argument, "=")
	if len(name) > 2 && (s.tool.oneDash && s.tool.option("-"+name) != nil) {
		s.long("-"+argument, argument)
		return
	}
	if !s.tool.letters {
		s.long(argument, argument)
		return
	}
	for letters, count := argument[1:], 0; letters != ""; count++ {
		if count == mostLetters {
			s.add(found{written: excerpt(argument), misfit: "too many letters in one"})
			return
		}
		name := "-" + letters[:1]
		option, _ := s.lookup(name, letters[1:])
		if option == nil || option.value.takes != aValue {
			if option == nil {
				s.add(found{written: argument, misfit: "no such flag"})
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

// mostLetters is how many flags one argument has at most.
const mostLetters = 20

// attached is a value in the same argument as its flag.
type attached struct {
	value string
	given bool
}

// lookup finds a flag in the tool's table, or in the other one, where the tool has none or
// the value fits the other's only.
func (s *scanner) lookup(name, value string) (option *option, owned bool) {
	option = s.tool.option(name)
	if s.also == nil {
		return option, false
	}
	other := s.also.option(name)
	fits := option != nil && option.value.fit(value)
	othersToo := other != nil && other.value.fit(value)
	if othersToo && (!fits || s.tool.yields(name)) || option == nil && other != nil {
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
		f.misfit = "no such flag"
		if a.given {
			f.written += "=" + a.value
		}
	case option.value.takes == nothing && a.given:
		if a.value == "false" { // as Go's package flag and kingpin have it
			return
		}
		if a.value != "true" {
			f.misfit = "it takes no value"
		}
	case option.value.takes == aValue && !a.given:
		if len(s.rest) == 0 {
			f.misfit = "its value is missing: want " + option.value.name
			break
		}
		f.value, s.rest = s.rest[0], s.rest[1:]
	}
	if f.misfit == "" && option.value.takes != nothing && !option.value.fit(f.value) {
		f.misfit = "want " + option.value.name
		if option.value.name != user.name { // it may be a password
			f.misfit += fmt.Sprintf(", found %q", excerpt(f.value))
		}
	}
	s.add(f)
}

func (s *scanner) add(f found) { s.line.found = append(s.line.found, f) }
