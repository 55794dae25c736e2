package expect

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/base/pattern"
)

// rewrittenText is text for the expression language. It keeps the original position of each rune,
// so that messages show mistakes in the user's own text.
type rewrittenText struct {
	to   []rune
	came []int // for each rune of to: its position in the user's text
	at   int   // current position in the user's text
}

// Patterns for the token at the beginning of a text. The first group is the part that is rewritten.
var (
	quotedPattern   = `"(?:[^"\\]|\\.?)*"?|'(?:[^'\\]|\\.?)*'?`
	jsonPathPattern = pattern.Lazy(`^(json[\s\pZ]*\([\s\pZ]*)([.\[](?:` + quotedPattern + `|[^)])*)`)
	// The text after a unit must not continue the word.
	durationPattern = pattern.Lazy(`^((?:\p{Nd}+(?:\.\p{Nd}+)?(?:ns|us|µs|μs|ms|s|m|h))+)(?:[^\pL_]|$)`)
	// Quoted texts, words, numbers with suffixes such as 0x1f and 1e3, and single characters.
	copiedPattern = pattern.Lazy("^(?:" + quotedPattern + "|`[^`]*`?" + `|[\pL_][\pL\p{Nd}_]*|\p{Nd}+(?:\.\p{Nd}+)?[\pL\p{Nd}_]*|.)`)
)

// rewrite replaces durations by calls of duration, and paths of json by quoted texts.
func rewrite(text string) *rewrittenText {
	r := &rewrittenText{}
	text = string([]rune(text)) // makes the text valid UTF-8
	for rest, isField := text, false; rest != ""; {
		before := len(rest)
		if found := durationPattern().FindStringSubmatch(rest); found != nil {
			r.replace(found[1], `duration("`+found[1]+`")`)
			rest = rest[len(found[1]):]
		} else if found := jsonPathPattern().FindStringSubmatch(rest); found != nil && !isField {
			r.copy(found[1])
			r.replace(found[2], strconv.Quote(strings.TrimSpace(found[2])))
			rest = rest[len(found[0]):]
		} else {
			token := copiedPattern().FindString(rest)
			r.copy(token)
			rest = rest[len(token):]
		}
		isField = text[len(text)-before] == '.' && before-len(rest) == 1
	}
	return r
}

// originalPosition returns the position in the user's text of a rune of the rewritten text.
func (r *rewrittenText) originalPosition(rewritten int) int {
	if rewritten < len(r.came) {
		return r.came[rewritten]
	}
	return r.at
}

func (r *rewrittenText) copy(part string) {
	for _, c := range part {
		r.to, r.came = append(r.to, c), append(r.came, r.at)
		r.at++
	}
}

func (r *rewrittenText) replace(part, by string) {
	for _, c := range by {
		r.to, r.came = append(r.to, c), append(r.came, r.at)
	}
	r.at += utf8.RuneCountInString(part)
}
