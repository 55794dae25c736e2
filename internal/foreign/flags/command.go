package flags

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"wirelab.dev/internal/base/secret"
)

// A Command holds the arguments for wirelab load that were translated from a command line.
type Command struct {
	// Pasted means that the line is a complete command of the tool, not typed after wirelab load.
	Pasted   bool
	Operands []string
	Written  string // the current flag as the user wrote it

	tool     *Tool
	settings []setting
	kept     map[string][]string // values for Settle, by the name of the tool's flag
	notes    []string            // messages about flags that are left out or change their meaning
	misfit   bool                // the tool does not accept this combination of operands and flags
}

// NewCommand returns a command without arguments, for a line of the tool.
func NewCommand(t *Tool, pasted bool) *Command {
	return &Command{Pasted: pasted, tool: t, kept: map[string][]string{}}
}

// A setting is a flag of wirelab load and its value.
type setting struct {
	flag  string
	value []string // one value, or none
}

type found struct {
	written string // the flag as written, with its dashes
	option  *Option
	value   string
	misfit  string // why the tool does not accept the flag or its value; empty if it does
	owned   bool   // the flag belongs to wirelab, not to the tool
}

type line struct {
	found    []found
	operands []string
	input    *Input // what a pipeline gives; nil means nothing
}

func (t *Tool) translate(l line, pasted bool) (*Command, error) {
	c := NewCommand(t, pasted)
	c.Operands = l.operands
	// the first error; later flags are read too, because they show whether the line is the tool's
	var failed error
	for _, f := range l.found {
		c.Written = f.written
		if err := c.take(f); err != nil && failed == nil {
			failed = err
		}
	}
	c.misfit = t.Fits != nil && !t.Fits(c)
	if failed != nil {
		return c, failed
	}
	if pasted && t.Usual != nil {
		t.Usual(c)
	}
	if l.input != nil {
		if err := t.ReadInput(c, *l.input); err != nil {
			return c, err
		}
	}
	if t.Settle != nil {
		if err := t.Settle(c); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *Command) take(f found) error {
	if f.misfit != "" {
		if c.Pasted {
			return fmt.Errorf("%s: %s: %s", c.tool.Name, f.written, f.misfit)
		}
		// wirelab load's own parser reports this error.
		c.settings = append(c.settings, setting{f.written, valueIf(f.option != nil && f.value != "", f.value)})
		return nil
	}
	before := len(c.settings)
	if err := f.option.Becomes.Apply(c, f.value); err != nil {
		return err
	}
	if !c.Pasted && !f.owned {
		c.noteChange(f, c.settings[min(before, len(c.settings)):])
	}
	return nil
}

func valueIf(there bool, value string) []string {
	if !there {
		return nil
	}
	return []string{value}
}

// noteChange adds a note about the translation of a typed flag if the flag or its value changed.
func (c *Command) noteChange(f found, now []setting) {
	typed := []setting{{f.written, valueIf(f.option.Value.takes == requiredValue, f.value)}}
	if len(now) == 0 || sameFlag(f.written, now[0].flag) && slices.Equal(typed[0].value, now[0].value) {
		return
	}
	c.Note("%s is read as %s", show(typed), show(now))
}

func sameFlag(typed, flag string) bool {
	if len(typed) > 2 && typed[1] != '-' {
		typed = "-" + typed
	}
	o := Own.option(typed)
	return o != nil && o.Becomes.Page == Code(flag)
}

// show formats settings for a message. It shortens long values and hides secrets.
func show(settings []setting) string {
	words := []string{}
	for _, s := range settings {
		words = append(words, s.flag)
		for _, value := range s.value {
			if value = secret.HideField(value); secret.IsSecretFlag(s.flag) {
				value = secret.Hidden
			}
			words = append(words, Quote(Excerpt(value)))
		}
	}
	return strings.Join(words, " ")
}

// Note adds a message about a flag that is left out or changes its meaning.
func (c *Command) Note(format string, values ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, values...))
}

// Refuse returns an error for a flag that wirelab does not support. instead names an alternative.
func (c *Command) Refuse(instead string) error {
	return fmt.Errorf("%s of %s: %s", c.Written, c.tool.Name, instead)
}

// Set sets a flag of wirelab. It replaces the value of a flag that can occur only once.
func (c *Command) Set(flag string, value ...string) {
	many := []string{"-H", "-F", "--import-path", "--expect", "--fail-if", "--proto", "--protoset", "--connect-to", "--resolve", "--also", "--push", "--push-header", "--link"}
	if !slices.Contains(many, flag) {
		c.Unset(flag)
	}
	c.settings = append(c.settings, setting{flag, value})
}

// Unset removes a flag.
func (c *Command) Unset(flag string) {
	c.settings = slices.DeleteFunc(c.settings, func(s setting) bool { return s.flag == flag })
}

// Get returns the value of a flag that can occur only once. It returns "" if the flag is not set.
func (c *Command) Get(flag string) string {
	for _, s := range c.settings {
		if s.flag == flag && len(s.value) > 0 {
			return s.value[0]
		}
	}
	return ""
}

// Has reports whether a flag is set.
func (c *Command) Has(flag string) bool {
	return slices.ContainsFunc(c.settings, func(s setting) bool { return s.flag == flag })
}

// SetDefault sets a flag to the tool's default value unless the flag is set.
func (c *Command) SetDefault(flag string, value ...string) {
	if !c.Has(flag) {
		c.Set(flag, value...)
		c.Note("%s is the default of %s", show([]setting{{flag, value}}), c.tool.Name)
	}
}

// Keep stores a value for Settle.
func (c *Command) Keep(key, value string) { c.kept[key] = append(c.kept[key], value) }

// Kept returns the values that were stored with Keep.
func (c *Command) Kept(key string) []string { return c.kept[key] }

// Last returns the value that was stored last with Keep, or "".
func (c *Command) Last(key string) string {
	values := c.kept[key]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

func (c *Command) clients() int {
	if n, err := strconv.Atoi(c.Get("-c")); err == nil && n > 0 {
		return n
	}
	return 10 // default of wirelab load
}

// PerClient sets the total rate to the rate per client multiplied by the number of clients.
func (c *Command) PerClient(flag, each string) {
	rate, err := strconv.ParseFloat(each, 64)
	if err != nil || rate <= 0 {
		return
	}
	total := FormatNumber(rate * float64(c.clients()))
	c.Set("--rps", total)
	c.Note("%s %s is the rate of each client: with %d clients that is --rps %s", flag, each, c.clients(), total)
}

// MultiplyClients translates a number of concurrent calls per connection. If it is above 1, it
// becomes more clients that share connections.
func (c *Command) MultiplyClients(flag, each string) error {
	if each == "" {
		return nil
	}
	n, err := strconv.Atoi(each)
	clients := c.clients()
	if err != nil || n < 1 || n > math.MaxInt32/clients {
		return fmt.Errorf("%s %s: want a whole number from 1", flag, each)
	}
	if n == 1 {
		return nil
	}
	c.Set("-c", strconv.Itoa(n*clients))
	c.Set("--conn", fmt.Sprintf("pool:%d", clients))
	c.Note("%s %s: %d connections with %d calls in flight each are -c %d --conn pool:%d", flag, each, clients, n, n*clients, clients)
	return nil
}

// DropCountIfTimed removes the number of requests if there is a duration. Use it for tools that
// ignore the number then.
func (c *Command) DropCountIfTimed() {
	if c.Pasted && c.Has("-z") && c.Has("-n") {
		c.Note("-n %s is left out: with a duration, %s ignores the number of calls", c.Get("-n"), c.tool.Name)
		c.Unset("-n")
	}
}

// Arguments returns the arguments for wirelab load.
func (c *Command) Arguments() []string {
	out := []string{}
	for _, s := range c.settings {
		out = append(append(out, s.flag), s.value...)
		if s.flag == "--from" && len(c.Operands) > 0 {
			out = append(out, c.Operands[0]) // the file that replaces the command
			c.Operands = c.Operands[1:]
		}
	}
	if slices.ContainsFunc(c.Operands, func(o string) bool { return strings.HasPrefix(o, "-") }) {
		out = append(out, "--")
	}
	return append(out, c.Operands...)
}
