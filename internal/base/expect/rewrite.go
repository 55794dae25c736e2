package expect

import (
	"strconv"
	"strings"
	"unicode"
)

// rewriting turns a user's text into text for the expression language. It keeps the original
// position of each rune, so that a mistake is shown in the user's own text.
type rewriting struct {
	from []rune
	at   int
	to   []rune
	came []int // for each rune of to: its place in from
}

// rewrite writes durations as calls of duration, and paths of json as texts.
func rewrite(text string) *rewriting {
	r := &rewriting{from: []rune(text)}
	for r.at < len(r.from) {
		switch c := r.from[r.at]; {
		case c == '"' || c == '\'' || c == '`':
			r.copyTo(r.quoteEnd(r.at))
		case unicode.IsLetter(c) || c == '_':
			r.word()
		case unicode.IsDigit(c):
			r.number()
		default:
			r.copyTo(r.at + 1)
		}
	}
	return r
}

// place returns the place in the original text of a rune of the rewritten text.
func (r *rewriting) place(rewritten int) int {
	if rewritten < len(r.came) {
		return r.came[rewritten]
	}
	return len(r.from)
}

func (r *rewriting) copyTo(end int) {
	for ; r.at < end; r.at++ {
		r.to, r.came = append(r.to, r.from[r.at]), append(r.came, r.at)
	}
}

// replaceTo replaces the text before end.
func (r *rewriting) replaceTo(end int, by string) {
	for _, c := range by {
		r.to, r.came = append(r.to, c), append(r.came, r.at)
	}
	r.at = end
}

// quoteEnd returns the place behind the text that begins at a quote.
func (r *rewriting) quoteEnd(begin int) int {
	quote := r.from[begin]
	for i := begin + 1; i < len(r.from); i++ {
		switch {
		case r.from[i] == '\\' && quote != '`':
			i++
		case r.from[i] == quote:
			return i + 1
		}
	}
	return len(r.from)
}

func (r *rewriting) while(begin int, is func(rune) bool) int {
	for begin < len(r.from) && is(r.from[begin]) {
		begin++
	}
	return begin
}

// word copies a name, and rewrites the path of json.
func (r *rewriting) word() {
	begin := r.at
	r.copyTo(r.while(begin, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) || c == '_' }))
	isField := begin > 0 && r.from[begin-1] == '.'
	if isField || string(r.from[begin:r.at]) != "json" {
		return
	}
	open := r.while(r.at, unicode.IsSpace)
	if open == len(r.from) || r.from[open] != '(' {
		return
	}
	r.copyTo(r.while(open+1, unicode.IsSpace))
	if r.at == len(r.from) || r.from[r.at] != '.' && r.from[r.at] != '[' {
		return
	}
	end := r.at
	for end < len(r.from) && r.from[end] != ')' {
		if c := r.from[end]; c == '"' || c == '\'' {
			end = r.quoteEnd(end)
			continue
		}
		end++
	}
	r.replaceTo(end, strconv.Quote(strings.TrimSpace(string(r.from[r.at:end]))))
}

// units of durations, the longer before those that they begin with.
var units = []string{"ns", "us", "µs", "μs", "ms", "s", "m", "h"}

// number copies a number, or writes a duration as a call.
func (r *rewriting) number() {
	end, isDuration := r.at, false
	for end < len(r.from) && unicode.IsDigit(r.from[end]) {
		behind := r.while(end, unicode.IsDigit)
		if behind+1 < len(r.from) && r.from[behind] == '.' && unicode.IsDigit(r.from[behind+1]) {
			behind = r.while(behind+1, unicode.IsDigit)
		}
		unit := r.unit(behind)
		if unit == 0 {
			if !isDuration {
				end = behind
			}
			break
		}
		end, isDuration = behind+unit, true
	}
	if !isDuration {
		// With what follows, as in 0x1f and 1e3: the rest is none of a word's.
		r.copyTo(r.while(end, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) || c == '_' }))
		return
	}
	r.replaceTo(end, `duration("`+string(r.from[r.at:end])+`")`)
}

// unit returns the length of the unit at a place, or 0 if a longer word stands there.
func (r *rewriting) unit(at int) int {
	for _, unit := range units {
		length := len([]rune(unit))
		if at+length > len(r.from) || string(r.from[at:at+length]) != unit {
			continue
		}
		if behind := at + length; behind == len(r.from) || !unicode.IsLetter(r.from[behind]) && r.from[behind] != '_' {
			return length
		}
	}
	return 0
}
