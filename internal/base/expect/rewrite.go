package expect

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// rewriting is text for the expression language. It keeps the original position of each rune,
// so that a mistake is shown in the user's own text.
type rewriting struct {
	to   []rune
	came []int // for each rune of to: its place in the user's text
	at   int   // the place in the user's text
}

// Tokens at the beginning of a text. Of a duration and a path, only the groups are rewritten.
var (
	quoted   = `"(?:[^"\\]|\\.?)*"?|'(?:[^'\\]|\\.?)*'?`
	jsonPath = regexp.MustCompile(`^(json[\s\pZ]*\([\s\pZ]*)([.\[](?:` + quoted + `|[^)])*)`)
	// A unit is not the beginning of a longer word.
	duration = regexp.MustCompile(`^((?:\p{Nd}+(?:\.\p{Nd}+)?(?:ns|us|µs|μs|ms|s|m|h))+)(?:[^\pL_]|$)`)
	// Texts, words, numbers with what follows, as in 0x1f and 1e3, and other characters.
	copied = regexp.MustCompile("^(?:" + quoted + "|`[^`]*`?" + `|[\pL_][\pL\p{Nd}_]*|\p{Nd}+(?:\.\p{Nd}+)?[\pL\p{Nd}_]*|.)`)
)

// rewrite writes durations as calls of duration, and paths of json as texts.
func rewrite(text string) *rewriting {
	r := &rewriting{}
	text = string([]rune(text)) // valid UTF-8
	for rest, isField := text, false; rest != ""; {
		before := len(rest)
		if found := duration.FindStringSubmatch(rest); found != nil {
			r.replace(found[1], `duration("`+found[1]+`")`)
			rest = rest[len(found[1]):]
		} else if found := jsonPath.FindStringSubmatch(rest); found != nil && !isField {
			r.copy(found[1])
			r.replace(found[2], strconv.Quote(strings.TrimSpace(found[2])))
			rest = rest[len(found[0]):]
		} else {
			token := copied.FindString(rest)
			r.copy(token)
			rest = rest[len(token):]
		}
		isField = text[len(text)-before] == '.' && before-len(rest) == 1
	}
	return r
}

// place returns the place in the original text for a rune of the rewritten text.
func (r *rewriting) place(rewritten int) int {
	if rewritten < len(r.came) {
		return r.came[rewritten]
	}
	return r.at
}

func (r *rewriting) copy(part string) {
	for _, c := range part {
		r.to, r.came = append(r.to, c), append(r.came, r.at)
		r.at++
	}
}

func (r *rewriting) replace(part, by string) {
	for _, c := range by {
		r.to, r.came = append(r.to, c), append(r.came, r.at)
	}
	r.at += utf8.RuneCountInString(part)
}
