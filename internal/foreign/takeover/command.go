package takeover

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// command is what a line asks for, in wirelab's words.
type command struct {
	tool     *tool
	pasted   bool // the line is the tool's own, whole; otherwise typed behind wirelab load
	settings []setting
	operands []string
	kept     map[string][]string // what settle needs, by the tool's flag
	lines    []string            // what is told
	written  string              // the flag at hand, as it stands
	misfit   bool                // the line as a whole is not such as the tool takes
}

// setting is a flag of wirelab load.
type setting struct {
	flag  string
	value []string // none or one
}

// translate makes a command of a line.
func (t *tool) translate(l line, pasted bool) (*command, error) {
	c := &command{tool: t, pasted: pasted, operands: l.operands, kept: map[string][]string{}}
	var failed error // the first; the others are read too, to see whether the line fits
	for _, f := range l.found {
		c.written = f.written
		if err := c.take(f); err != nil && failed == nil {
			failed = err
		}
	}
	c.misfit = t.fits != nil && !t.fits(c)
	if failed != nil {
		return c, failed
	}
	if pasted && t.usual != nil {
		t.usual(c)
	}
	if t.settle != nil {
		if err := t.settle(c); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *command) take(f found) error {
	if f.misfit != "" {
		if c.pasted {
			return fmt.Errorf("%s: %s: %s", c.tool.name, f.written, f.misfit)
		}
		// Whoever parses the arguments says what is wrong with it.
		c.settings = append(c.settings, setting{f.written, valueIf(f.option != nil && f.value != "", f.value)})
		return nil
	}
	before := len(c.settings)
	if err := f.option.becomes.apply(c, f.value); err != nil {
		return err
	}
	if !c.pasted && !f.owned {
		c.tellChange(f, c.settings[min(before, len(c.settings)):])
	}
	return nil
}

func valueIf(there bool, value string) []string {
	if !there {
		return nil
	}
	return []string{value}
}

// tellChange says what a typed flag became, unless it is the same.
func (c *command) tellChange(f found, now []setting) {
	typed := []setting{{f.written, valueIf(f.option.value.takes == aValue, f.value)}}
	if len(now) == 0 || sameFlag(f.written, now[0].flag) && slices.Equal(typed[0].value, now[0].value) {
		return
	}
	c.tell("%s is read as %s", show(typed), show(now))
}

// sameFlag reports whether wirelab has a flag as it was typed, and means the same by it.
func sameFlag(typed, flag string) bool {
	if len(typed) > 2 && typed[1] != '-' {
		typed = "-" + typed
	}
	o := own.option(typed)
	return o != nil && o.becomes.page == code(flag)
}

// show writes settings for a message, long values cut and secrets hidden.
func show(settings []setting) string {
	words := []string{}
	for _, s := range settings {
		words = append(words, s.flag)
		for _, value := range s.value {
			switch {
			case slices.Contains([]string{"--user", "-u", "-a", "--bearer", "--oauth2-bearer", "-user"}, s.flag):
				value = "…"
			case secretHeader(value):
				value = value[:strings.IndexByte(value, ':')] + ": …"
			}
			words = append(words, quote(excerpt(value)))
		}
	}
	return strings.Join(words, " ")
}

func secretHeader(value string) bool {
	name, _, is := strings.Cut(strings.ToLower(value), ":")
	return is && (name == "authorization" || name == "cookie" || strings.Contains(name, "token") || strings.Contains(name, "key"))
}

// quote writes a word as a shell reads it.
func quote(word string) string {
	if word != "" && strings.IndexFunc(word, func(r rune) bool {
		return !strings.ContainsRune("%+,-./:=@_…", r) && (r > 127 || !isLetter(byte(r)) && !isDigit(byte(r)))
	}) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func (c *command) tell(format string, values ...any) {
	c.lines = append(c.lines, fmt.Sprintf(format, values...))
}

// refusal is the error of a flag that cannot be honoured.
func (c *command) refusal(instead string) error {
	return fmt.Errorf("%s of %s: %s", c.written, c.tool.name, instead)
}

// set adds a flag; those that stand once are replaced.
func (c *command) set(flag string, value ...string) {
	many := []string{"-H", "--import-path", "--expect", "--fail-if", "--proto", "--protoset"}
	if !slices.Contains(many, flag) {
		c.unset(flag)
	}
	c.settings = append(c.settings, setting{flag, value})
}

func (c *command) unset(flag string) {
	c.settings = slices.DeleteFunc(c.settings, func(s setting) bool { return s.flag == flag })
}

// get is the value of a flag that stands once; empty: it is not there.
func (c *command) get(flag string) string {
	for _, s := range c.settings {
		if s.flag == flag && len(s.value) > 0 {
			return s.value[0]
		}
	}
	return ""
}

func (c *command) has(flag string) bool {
	return slices.ContainsFunc(c.settings, func(s setting) bool { return s.flag == flag })
}

// usually sets a flag that is not there, as the tool does.
func (c *command) usually(flag string, value ...string) {
	if !c.has(flag) {
		c.set(flag, value...)
		c.tell("%s, as %s does where nothing else is said", show([]setting{{flag, value}}), c.tool.name)
	}
}

func (c *command) keep(key, value string) { c.kept[key] = append(c.kept[key], value) }

// kept1 is the last value that was kept; empty: none.
func (c *command) kept1(key string) string {
	values := c.kept[key]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// usualClients is how many clients wirelab load has where nothing else is said.
const usualClients = 10

// clients is how many clients there will be.
func (c *command) clients() int {
	if n, err := strconv.Atoi(c.get("-c")); err == nil && n > 0 {
		return n
	}
	return usualClients
}

// perClient sets the total rate for a rate that each client has.
func (c *command) perClient(flag, each string) {
	rate, err := strconv.ParseFloat(each, 64)
	if err != nil || rate <= 0 {
		return
	}
	total := plain(rate * float64(c.clients()))
	c.set("--rps", total)
	c.tell("%s %s is a rate of each client: %d clients make --rps %s", flag, each, c.clients(), total)
}

// plain writes a number without an exponent.
func plain(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// spread has each of the clients' connections carry several calls at once.
func (c *command) spread(flag, each string) error {
	n, err := strconv.Atoi(each)
	clients := c.clients()
	if err != nil || n < 1 || n > math.MaxInt32/clients {
		return fmt.Errorf("%s %s: want a whole number from 1", flag, each)
	}
	if n == 1 {
		return nil
	}
	c.set("-c", strconv.Itoa(n*clients))
	c.set("--conn", fmt.Sprintf("pool:%d", clients))
	c.tell("%s %s: %d connections with %d calls in flight each are -c %d --conn pool:%d", flag, each, clients, n, n*clients, clients)
	return nil
}

// timed has a duration come before a number of requests, as in the tools that end by one
// of them only.
func (c *command) timed() {
	if c.pasted && c.has("-z") && c.has("-n") {
		c.tell("-n %s is left out: with a duration %s ends by that alone", c.get("-n"), c.tool.name)
		c.unset("-n")
	}
}

// arguments is the command as wirelab load takes it.
func (c *command) arguments() []string {
	out := []string{}
	for _, s := range c.settings {
		out = append(append(out, s.flag), s.value...)
		if s.flag == "--from" && len(c.operands) > 0 {
			out = append(out, c.operands[0]) // the file, which is read in its place
			c.operands = c.operands[1:]
		}
	}
	if slices.ContainsFunc(c.operands, func(o string) bool { return strings.HasPrefix(o, "-") }) {
		out = append(out, "--")
	}
	return append(out, c.operands...)
}
