package expect

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// A path leads to a value in JSON, from the outside to the inside.
type path []step

// A step is a member's name, or an element's index.
type step struct {
	name  string
	index int // where name is not set
	named bool
}

// parsePath reads .a.b[0]["c d"]; a dot alone is the whole.
func parsePath(text string) (path, error) {
	wrong := func() (path, error) {
		return nil, fmt.Errorf(`json: found the path %q: want names behind dots and places in brackets, as in .items[0].id, or ["a name"]`, text)
	}
	if text == "." {
		return path{}, nil
	}
	if text == "" {
		return wrong()
	}
	var p path
	for rest := text; rest != ""; {
		var found step
		var ok bool
		switch rest[0] {
		case '.':
			found, rest, ok = parseName(rest[1:])
		case '[':
			found, rest, ok = parseBracket(rest[1:])
		}
		if !ok {
			return wrong()
		}
		p = append(p, found)
	}
	return p, nil
}

func parseName(rest string) (step, string, bool) {
	end := strings.IndexAny(rest, ".[")
	if end < 0 {
		end = len(rest)
	}
	name := rest[:end]
	if name == "" || strings.ContainsAny(name, " \t\n]\"'()") {
		return step{}, rest, false
	}
	return step{name: name, named: true}, rest[end:], true
}

func parseBracket(rest string) (step, string, bool) {
	if rest == "" {
		return step{}, rest, false
	}
	if quote := rest[:1]; quote == `"` || quote == "'" {
		name, behind, found := strings.Cut(rest[1:], quote+"]")
		return step{name: name, named: true}, behind, found
	}
	digits, behind, found := strings.Cut(rest, "]")
	index, err := strconv.ParseUint(digits, 10, 31)
	return step{index: int(index)}, behind, found && err == nil
}

// of returns the value at the path, or nil.
func (p path) of(value any) any {
	for _, s := range p {
		switch inside := value.(type) {
		case map[string]any:
			if !s.named {
				return nil
			}
			value = inside[s.name]
		case []any:
			if s.named || s.index >= len(inside) {
				return nil
			}
			value = inside[s.index]
		default:
			return nil
		}
	}
	return plain(value)
}

// plain converts numbers to types of the expression language. Whole numbers stay exact.
func plain(value any) any {
	switch v := value.(type) {
	case json.Number:
		if whole, err := strconv.Atoi(v.String()); err == nil {
			return whole
		}
		number, err := v.Float64()
		if err != nil {
			return v.String() // beyond what a float holds
		}
		return number
	case []any:
		all := make([]any, len(v))
		for i, one := range v {
			all[i] = plain(one)
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, one := range v {
			all[name] = plain(one)
		}
		return all
	}
	return value
}
