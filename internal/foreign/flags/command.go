package flags

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"wirelab.dev/internal/base/secret"
)

// A Command holds the arguments of wirelab load that a line becomes.
type Command struct {
	// Pasted says that the line is a whole command of the tool, not typed behind wirelab load.
	Pasted   bool
	Operands []string
	Written  string // the flag at hand, as in the line

	tool     *Tool
	settings []setting
	kept     map[string][]string // values for Settle, by the tool's flag
	notes    []string            // what changes its sense or is left out
	misfit   bool                // the tool does not take such operands and flags
}

// NewCommand returns an empty command for a line of the tool.
func NewCommand(t *Tool, pasted bool) *Command {
	return &Command{Pasted: pasted, tool: t, kept: map[string][]string{}}
}

// A setting is a flag of wirelab load.
type setting struct {
	flag  string
	value []string // none or one
}

type found struct {
	written string // with its dashes
	option  *Option
	value   string
	misfit  string // why the tool has no such flag or value; empty: it has
	owned   bool   // it is wirelab's, not the tool's
}

type line struct {
	found    []found
	operands []string
}

func (t *Tool) translate(l line, pasted bool) (*Command, error) {
	c := NewCommand(t, pasted)
	c.Operands = l.operands
	var failed error // the first; the others are read too, to see whether the line fits
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
		// The command's own parser will report it.
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

// noteChange notes what a typed flag became, unless it is the same.
func (c *Command) noteChange(f found, now []setting) {
	typed := []setting{{f.written, valueIf(f.option.Value.takes == aValue, f.value)}}
	if len(now) == 0 || sameFlag(f.written, now[0].flag) && slices.Equal(typed[0].value, now[0].value) {
		return
	}
	c.Note("%s is read as %s", show(typed), show(now))
}

// sameFlag reports whether wirelab has a flag as it was typed, and means the same by it.
func sameFlag(typed, flag string) bool {
	if len(typed) > 2 && typed[1] != '-' {
		typed = "-" + typed
	}
	o := Own.option(typed)
	return o != nil && o.Becomes.Page == Code(flag)
}

// show formats settings for a message. It cuts long values and hides secrets.
func show(settings []setting) string {
	words := []string{}
	for _, s := range settings {
		words = append(words, s.flag)
		for _, value := range s.value {
			if value = secret.HideField(value); secret.InFlag(s.flag) {
				value = secret.Hidden
			}
			words = append(words, Quote(Excerpt(value)))
		}
	}
	return strings.Join(words, " ")
}

// Note adds a line about what changes its sense or is left out.
func (c *Command) Note(format string, values ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, values...))
}

// Refuse returns the error for a flag that cannot be honoured.
func (c *Command) Refuse(instead string) error {
	return fmt.Errorf("%s of %s: %s", c.Written, c.tool.Name, instead)
}

// Set sets a flag. It replaces a flag that can be given only once.
func (c *Command) Set(flag string, value ...string) {
	many := []string{"-H", "--import-path", "--expect", "--fail-if", "--proto", "--protoset"}
	if !slices.Contains(many, flag) {
		c.Unset(flag)
	}
	c.settings = append(c.settings, setting{flag, value})
}

// Unset removes a flag.
func (c *Command) Unset(flag string) {
	c.settings = slices.DeleteFunc(c.settings, func(s setting) bool { return s.flag == flag })
}

// Get returns the value of a flag that can be given only once, or "".
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

// Usually sets a flag to the tool's default, unless it is set.
func (c *Command) Usually(flag string, value ...string) {
	if !c.Has(flag) {
		c.Set(flag, value...)
		c.Note("%s is the default of %s", show([]setting{{flag, value}}), c.tool.Name)
	}
}

// Keep keeps a value for Settle.
func (c *Command) Keep(key, value string) { c.kept[key] = append(c.kept[key], value) }

// Kept returns the values that were kept under a key.
func (c *Command) Kept(key string) []string { return c.kept[key] }

// Last returns the last value that was kept under a key, or "".
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
	return 10 // wirelab load's default
}

// PerClient sets the total rate from the rate of each client.
func (c *Command) PerClient(flag, each string) {
	rate, err := strconv.ParseFloat(each, 64)
	if err != nil || rate <= 0 {
		return
	}
	total := FormatNumber(rate * float64(c.clients()))
	c.Set("--rps", total)
	c.Note("%s %s is the rate of each client: with %d clients that is --rps %s", flag, each, c.clients(), total)
}

// Spread makes each client's connection carry several calls at once, if each says how many.
func (c *Command) Spread(flag, each string) error {
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

// Timed drops the number of requests if there is a duration: some tools end by only one.
func (c *Command) Timed() {
	if c.Pasted && c.Has("-z") && c.Has("-n") {
		c.Note("-n %s is left out: with a duration %s ends by that alone", c.Get("-n"), c.tool.Name)
		c.Unset("-n")
	}
}

// Arguments returns the arguments for wirelab load.
func (c *Command) Arguments() []string {
	out := []string{}
	for _, s := range c.settings {
		out = append(append(out, s.flag), s.value...)
		if s.flag == "--from" && len(c.Operands) > 0 {
			out = append(out, c.Operands[0]) // the file, which is read in its place
			c.Operands = c.Operands[1:]
		}
	}
	if slices.ContainsFunc(c.Operands, func(o string) bool { return strings.HasPrefix(o, "-") }) {
		out = append(out, "--")
	}
	return append(out, c.Operands...)
}
