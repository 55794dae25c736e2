package feed

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	"wirelab.dev/internal/base/spelling"
)

// text is a template, or what is the same in every call.
type text struct {
	name     string             // in errors: the body
	source   string             // what it was parsed from
	template *template.Template // nil: the same in every call
}

// maxTemplate bounds a text that has a template in it.
const maxTemplate = 4 << 20

// HasTemplate reports whether a text differs from call to call.
func HasTemplate(text string) bool { return strings.Contains(text, "{{") }

// parseText parses a template and looks up every name in it.
func parseText(name, source string, columns []string) (text, error) {
	t := text{name: name, source: source}
	if !HasTemplate(source) {
		return t, nil
	}
	if len(source) > maxTemplate {
		return t, fmt.Errorf("%s has a template and %d bytes: want at most %d MiB", name, len(source), maxTemplate>>20)
	}
	tree := parse.New(name)
	tree.Mode = parse.SkipFuncCheck // lookup does it, and knows the column
	trees := map[string]*parse.Tree{}
	if _, err := tree.Parse(source, "", "", trees); err != nil {
		return t, t.parsing(err)
	}
	if len(trees) > 1 || trees[name] == nil {
		return t, t.at(strings.Index(source, "{{"), "a template has no {{define}} and no {{block}}")
	}
	l := lookup{text: &t, columns: columns}
	if err := l.node(tree.Root); err != nil {
		return t, err
	}
	var err error
	// The functions of a call that is never made: their names are what is needed here.
	t.template, err = template.New(name).Option("missingkey=error").Funcs((&call{}).functions()).AddParseTree(name, tree)
	return t, err
}

// at is an error at a place of the source.
func (t *text) at(offset int, format string, args ...any) error {
	before := t.source[:min(max(offset, 0), len(t.source))]
	return fmt.Errorf("%s, line %d, column %d: %s", t.name, strings.Count(before, "\n")+1, len(before)-strings.LastIndexByte(before, '\n'), fmt.Sprintf(format, args...))
}

// saidPlace is what text/template writes before its errors: the template's name, the line
// and, of a template that is written, the column from 0.
var saidPlace = regexp.MustCompile(`^template: .*?:(\d+):(?:(\d+):)? (?s:(.*))$`)

// parsing says where the parser stopped. It tells the line; the column is that of the first
// template there.
func (t *text) parsing(err error) error {
	said := saidPlace.FindStringSubmatch(err.Error())
	if said == nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	line, _ := strconv.Atoi(said[1]) // the pattern has digits only
	start := 0
	for ; line > 1; line-- {
		start += strings.IndexByte(t.source[start:], '\n') + 1
	}
	end := len(t.source)
	if next := strings.IndexByte(t.source[start:], '\n'); next >= 0 {
		end = start + next
	}
	return t.at(start+max(strings.Index(t.source[start:end], "{{"), 0), "%s", said[3])
}

// executing says where writing stopped.
func (t *text) executing(err error) error {
	if errors.Is(err, errTooLong) {
		return fmt.Errorf("%s: %w", t.name, errTooLong)
	}
	said := saidPlace.FindStringSubmatch(err.Error())
	if len(said) != 4 || said[2] == "" {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	column, _ := strconv.Atoi(said[2]) // the pattern has digits only
	reason := said[3]
	if _, after, found := strings.Cut(reason, " at <"); found {
		reason = "at <" + after
	}
	return fmt.Errorf("%s, line %s, column %d: %s", t.name, said[1], column+1, reason)
}

// lookup checks a tree: that it has only nodes that end, and only names that there are.
type lookup struct {
	text    *text
	columns []string
}

func (l *lookup) node(n parse.Node) error {
	switch n := n.(type) {
	case nil, *parse.TextNode, *parse.CommentNode, *parse.DotNode, *parse.NilNode, *parse.BoolNode, *parse.NumberNode, *parse.StringNode:
		return nil
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		return l.each(n.Nodes)
	case *parse.ActionNode:
		return l.node(n.Pipe)
	case *parse.IfNode:
		return l.each([]parse.Node{n.Pipe, n.List, n.ElseList})
	case *parse.PipeNode:
		for _, command := range n.Cmds {
			if err := l.command(command); err != nil {
				return err
			}
		}
		return nil
	case *parse.IdentifierNode:
		return l.function(n)
	case *parse.FieldNode:
		return l.field(n.Ident, n.Pos)
	case *parse.VariableNode:
		if n.Ident[0] == "$" && len(n.Ident) > 1 {
			return l.field(n.Ident[1:], n.Pos)
		}
		return nil
	case *parse.ChainNode:
		return l.node(n.Node)
	}
	// {{range}} can run without an end, and {{with}} changes what a field means.
	return l.text.at(int(n.Position()), "a template may choose with {{if}}, but has no %s", strings.SplitN(strings.Trim(n.String(), "{} "), " ", 2)[0])
}

func (l *lookup) each(nodes []parse.Node) error {
	for _, n := range nodes {
		if err := l.node(n); err != nil {
			return err
		}
	}
	return nil
}

// command also looks at {{index .Row "first name"}}, which names a column.
func (l *lookup) command(c *parse.CommandNode) error {
	if len(c.Args) == 3 {
		f, isIdentifier := c.Args[0].(*parse.IdentifierNode)
		row, isField := c.Args[1].(*parse.FieldNode)
		column, isText := c.Args[2].(*parse.StringNode)
		if isIdentifier && isField && isText && f.Ident == "index" && slices.Equal(row.Ident, []string{"Row"}) {
			return l.column(column.Text, int(column.Pos))
		}
	}
	return l.each(c.Args)
}

func (l *lookup) function(n *parse.IdentifierNode) error {
	if slices.Contains(functionNames, n.Ident) {
		return nil
	}
	return l.text.at(int(n.Pos), "there is no function %s: %s", n.Ident, spelling.Suggest(n.Ident, functionNames))
}

func (l *lookup) field(path []string, pos parse.Pos) error {
	at := int(pos) // of the last name in a chain
	if !slices.Contains(fieldNames, path[0]) {
		return l.text.at(at, "there is no .%s: %s", path[0], spelling.Suggest(path[0], fieldNames))
	}
	switch {
	case path[0] != "Row" && len(path) > 1:
		return l.text.at(at, ".%s has no fields, and so no .%s", path[0], path[1])
	case path[0] == "Row" && len(path) == 1:
		return l.text.at(at, ".Row is a whole row: want one of its columns, as in {{.Row.%s}}", slices.Concat(l.columns, []string{"name"})[0])
	case path[0] == "Row" && len(path) > 2:
		return l.text.at(at, ".Row.%s is a text and has no .%s", path[1], path[2])
	case path[0] == "Row":
		return l.column(path[1], at)
	}
	return nil
}

func (l *lookup) column(name string, at int) error {
	switch {
	case len(l.columns) == 0:
		return l.text.at(at, "column %q is wanted, but there is no data: name it with --rows", name)
	case !slices.Contains(l.columns, name):
		return l.text.at(at, "the data has no column %q: %s", name, spelling.Suggest(name, l.columns))
	}
	return nil
}

// maxValue bounds what a function returns, since one function's value is another's
// argument.
const maxValue = 1 << 20

func bounded(value string) (string, error) {
	if len(value) > maxValue {
		return "", fmt.Errorf("the value has %d bytes: want at most %d MiB", len(value), maxValue>>20)
	}
	return value, nil
}

// maxVerbs bounds a format, each verb of which may write a whole argument.
const maxVerbs = 64

func printf(format string, args ...any) (string, error) {
	if strings.Count(format, "%") > maxVerbs {
		return "", fmt.Errorf("a format with more than %d verbs", maxVerbs)
	}
	for _, arg := range args {
		if s, ok := arg.(string); ok && len(s) > maxValue/maxVerbs {
			return "", fmt.Errorf("an argument of %d bytes: want at most %d KiB", len(s), maxValue/maxVerbs>>10)
		}
	}
	return bounded(fmt.Sprintf(format, args...))
}

func printAll(args ...any) (string, error) {
	var all bytes.Buffer
	for _, arg := range args {
		if _, err := fmt.Fprint(&all, arg); err != nil {
			return "", err
		}
		if all.Len() > maxValue {
			break
		}
	}
	return bounded(all.String())
}

func urlquery(args ...any) (string, error) {
	value, err := printAll(args...)
	if err != nil {
		return "", err
	}
	return bounded(template.URLQueryEscaper(value))
}
