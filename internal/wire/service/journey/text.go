package journey

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"wirelab.dev/internal/data/scenario"
)

// text may have templates in it.
type text struct {
	source   string
	template *template.Template // nil: the same in every call
}

// mostText bounds what a template writes.
const mostText = 1 << 20

// randomizer is what the functions of one client's templates share.
type randomizer struct{ *rand.Rand }

func (r randomizer) functions() template.FuncMap {
	return template.FuncMap{
		"json": func(value any) (string, error) {
			text, err := json.Marshal(value)
			return bounded(string(text)), err
		},
		"urlquery": func(value any) string { return bounded(template.URLQueryEscaper(value)) },
		"uuid": func() string { // of version 4: RFC 9562, section 5.4
			high, low := r.Uint64()&^0xf000|0x4000, r.Uint64()&^(3<<62)|2<<62
			return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", high>>32, high>>16&0xffff, high&0xffff, low>>48, low&0xffffffffffff)
		},
		"randomInt": func(from, to int) (int, error) {
			if from >= to || to-from <= 0 {
				return 0, fmt.Errorf("there is no whole number from %d to below %d", from, to)
			}
			return from + r.IntN(to-from), nil
		},
	}
}

// functions are what templates may call: what they return is bounded, since the value of one
// may be the argument of another.
var functions = []string{"and", "eq", "ge", "gt", "index", "json", "le", "len", "lt", "ne", "not", "or", "randomInt", "urlquery", "uuid"}

// bounded cuts a value that is too long for any request, and that the whole text would
// refuse.
func bounded(value string) string { return value[:min(len(value), mostText+1)] }

// parseText parses a template, and looks up its names among the known.
func parseText(source string, known names) (text, error) {
	if !strings.Contains(source, "{{") {
		return text{source: source}, nil
	}
	t, err := template.New("").Option("missingkey=error").Funcs(randomizer{}.functions()).Parse(source)
	if err != nil {
		return text{}, errors.New(strings.TrimPrefix(err.Error(), "template: :1: "))
	}
	if len(t.Templates()) > 1 || t.Tree == nil {
		return text{}, errors.New("a template has no {{define}} and no {{block}}")
	}
	return text{source, t}, known.check(t.Root)
}

// bind gives the text functions of one client.
func (t text) bind(functions template.FuncMap) text {
	if t.template == nil {
		return t
	}
	clone, err := t.template.Clone()
	if err != nil {
		panic(err) // only html/template refuses to be cloned
	}
	return text{t.source, clone.Funcs(functions)}
}

func (t text) render(values map[string]any) (string, error) {
	if t.template == nil {
		return t.source, nil
	}
	var out limited
	if err := t.template.Execute(&out, values); err != nil {
		return "", fmt.Errorf("%s: %w", t.source, err)
	}
	return out.String(), nil
}

type limited struct{ bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	if l.Len()+len(b) > mostText {
		return 0, fmt.Errorf("it became longer than %d MiB", mostText>>20)
	}
	return l.Buffer.Write(b)
}

// names are what a template may use after a dot.
type names struct {
	plain   []string // N, Client, and what was taken
	columns []string // of .Row
}

// with are the names and one more.
func (n names) with(taken string) names {
	return names{append(slices.Clone(n.plain), taken), n.columns}
}

func (n names) check(node parse.Node) error {
	switch at := node.(type) {
	case nil, *parse.TextNode, *parse.CommentNode, *parse.DotNode, *parse.NilNode, *parse.BoolNode, *parse.NumberNode, *parse.StringNode:
		return nil
	case *parse.IdentifierNode:
		if !slices.Contains(functions, at.Ident) {
			return fmt.Errorf("there is no function %s: %s", at.Ident, scenario.Suggest(at.Ident, functions))
		}
		return nil
	case *parse.ListNode:
		if at == nil {
			return nil
		}
		for _, inner := range at.Nodes {
			if err := n.check(inner); err != nil {
				return err
			}
		}
		return nil
	case *parse.ActionNode:
		return n.check(at.Pipe)
	case *parse.IfNode:
		return cmpErr(n.check(at.Pipe), n.check(at.List), n.check(at.ElseList))
	case *parse.PipeNode:
		for _, command := range at.Cmds {
			for _, argument := range command.Args {
				if err := n.check(argument); err != nil {
					return err
				}
			}
		}
		return nil
	case *parse.FieldNode:
		return n.field(at.Ident)
	}
	// {{range}} can run without an end, and {{with}} changes what a field means.
	return fmt.Errorf("a template may have names, functions and {{if}}: found %s", node)
}

func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (n names) field(path []string) error {
	switch {
	case path[0] == "Row" && len(path) == 2 && slices.Contains(n.columns, path[1]), len(path) == 1 && slices.Contains(n.plain, path[0]):
		return nil
	case path[0] == "Row" && len(n.columns) == 0:
		return errors.New("there are no rows: write them under `rows`, each with its names and values")
	case path[0] == "Row" && len(path) == 2:
		return fmt.Errorf("the rows have no %s: %s", path[1], scenario.Suggest(path[1], n.columns))
	}
	return fmt.Errorf("there is no {{.%s}} here: %s; a step takes values for those after it", strings.Join(path, "."), scenario.Suggest(path[0], n.plain))
}
