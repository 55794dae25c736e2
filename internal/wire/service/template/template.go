// Package template holds the template language of requests: of the data given to wirelab load, and
// of the steps of its users.
//
//	text ── Parse ──> Text ── Call.Bind ──> Text of one client ── Call.Render ──> bytes
//	       (names)  (shared)
//
// It is a part of Go's text/template. Parse looks up every name, so that a mistake is found before
// anything is sent. Every template ends: there is no {{range}}, and values and output are bounded.
//
// This package must not know how requests are carried, nor when.
package template

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
	"wirelab.dev/internal/wire/service"
)

// A Text is a template, or a text that is the same in every call. It may be shared.
type Text struct {
	Name     string // in errors, such as "the body"
	source   string
	template *template.Template // nil: the same in every call
}

// Fixed reports whether the text is the same in every call.
func (t *Text) Fixed() bool { return t.template == nil }

// A Form is a request with templates in it. It may be shared.
type Form struct {
	Fixed  service.Request // the parts that are the same in every call
	Path   Text
	Header []Text // the values of the fields in Fixed
	Body   Text
}

// at returns an error at a place of the source.
func (t *Text) at(offset int, format string, args ...any) error {
	before := t.source[:min(max(offset, 0), len(t.source))]
	return fmt.Errorf("%s, line %d, column %d: %s", t.Name, strings.Count(before, "\n")+1, len(before)-strings.LastIndexByte(before, '\n'), fmt.Sprintf(format, args...))
}

// saidPlace matches the beginning of text/template's errors: the template's name, the line and,
// in errors of execution, the column from 0.
var saidPlace = regexp.MustCompile(`^template: .*?:(\d+):(?:(\d+):)? (?s:(.*))$`)

// parsing adds the place to an error of the parser, which reports only the line. The column is
// that of the line's first template.
func (t *Text) parsing(err error) error {
	said := saidPlace.FindStringSubmatch(err.Error())
	if said == nil {
		return fmt.Errorf("%s: %w", t.Name, err)
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

// executing adds the place to an error of execution.
func (t *Text) executing(err error) error {
	if errors.Is(err, errTooLong) {
		return fmt.Errorf("%s: %w", t.Name, errTooLong)
	}
	said := saidPlace.FindStringSubmatch(err.Error())
	if len(said) != 4 || said[2] == "" {
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	column, _ := strconv.Atoi(said[2]) // the pattern has digits only
	reason := said[3]
	if _, after, found := strings.Cut(reason, " at <"); found {
		reason = "at <" + after
	}
	return fmt.Errorf("%s, line %s, column %d: %s", t.Name, said[1], column+1, reason)
}

// maxOutput limits the output of a template.
const maxOutput = 16 << 20

var errTooLong = fmt.Errorf("it became longer than %d MiB", maxOutput>>20)

// limited is a buffer with a largest size.
type limited struct{ *bytes.Buffer }

func (l limited) Write(b []byte) (int, error) {
	if l.Len()+len(b) > maxOutput {
		return 0, errTooLong
	}
	return l.Buffer.Write(b)
}

// Names lists the names that a template may use besides Fields and Functions.
type Names struct {
	Columns []string // columns of .Row
	NoRows  string   // what the user can do to get rows
	// Taken lists the values that earlier steps take from their answers. They hide Fields.
	Taken []string
	// Hint ends the error about an unknown name.
	Hint string
}

// With returns the names and one more that is taken.
func (n Names) With(taken string) Names {
	n.Taken = append(slices.Clone(n.Taken), taken)
	return n
}

// maxSource limits the size of a text that has a template in it.
const maxSource = 4 << 20

// Has reports whether a text has a template in it, and so differs from call to call.
func Has(text string) bool { return strings.Contains(text, "{{") }

// Parse parses a text and looks up every name in it. A text without a template always parses.
func Parse(name, source string, known Names) (Text, error) {
	t := Text{Name: name, source: source}
	if !Has(source) {
		return t, nil
	}
	if len(source) > maxSource {
		return t, fmt.Errorf("%s has a template and %d bytes: want at most %d MiB", name, len(source), maxSource>>20)
	}
	tree := parse.New(name)
	tree.Mode = parse.SkipFuncCheck // lookup does it, and finds the column
	trees := map[string]*parse.Tree{}
	if _, err := tree.Parse(source, "", "", trees); err != nil {
		return t, t.parsing(err)
	}
	if len(trees) > 1 || trees[name] == nil {
		return t, t.at(strings.Index(source, "{{"), "a template has no {{define}} and no {{block}}")
	}
	l := lookup{text: &t, known: known}
	if err := l.node(tree.Root); err != nil {
		return t, err
	}
	var err error
	// The functions belong to a call that is never made: only their names are needed here.
	t.template, err = template.New(name).Option("missingkey=error").Funcs((&Call{}).functions()).AddParseTree(name, tree)
	return t, err
}

// lookup checks that a tree has only nodes that end, and only known names.
type lookup struct {
	text  *Text
	known Names
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
		if l.takes(n.Ident) {
			n.Ident = []string{"Taken", n.Ident[0]} // the field of Call that has it
			return nil
		}
		return l.field(n.Ident, n.Pos)
	case *parse.VariableNode:
		if n.Ident[0] != "$" || len(n.Ident) == 1 {
			return nil
		}
		if l.takes(n.Ident[1:]) {
			n.Ident = []string{"$", "Taken", n.Ident[1]}
			return nil
		}
		return l.field(n.Ident[1:], n.Pos)
	case *parse.ChainNode:
		return l.node(n.Node)
	}
	// {{range}} can run without an end, and {{with}} changes what a field means.
	return l.text.at(int(n.Position()), "a template may choose with {{if}}, but has no %s", strings.SplitN(strings.Trim(n.String(), "{} "), " ", 2)[0])
}

func (l *lookup) takes(path []string) bool {
	return len(path) == 1 && slices.Contains(l.known.Taken, path[0])
}

func (l *lookup) each(nodes []parse.Node) error {
	for _, n := range nodes {
		if err := l.node(n); err != nil {
			return err
		}
	}
	return nil
}

// command also looks up the column in {{index .Row "first name"}}.
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
	if slices.Contains(Functions, n.Ident) {
		return nil
	}
	return l.text.at(int(n.Pos), "there is no function %s: %s", n.Ident, spelling.Suggest(n.Ident, Functions))
}

func (l *lookup) field(path []string, pos parse.Pos) error {
	at := int(pos) // place of the last name in a chain
	if !slices.Contains(Fields, path[0]) && (len(path) == 1 || !slices.Contains(l.known.Taken, path[0])) {
		return l.text.at(at, "there is no .%s: %s%s", path[0], spelling.Suggest(path[0], slices.Concat(l.known.Taken, Fields)), l.known.Hint)
	}
	switch {
	case path[0] != "Row" && len(path) > 1:
		return l.text.at(at, ".%s has no fields, and so no .%s", path[0], path[1])
	case path[0] == "Row" && len(path) == 1:
		return l.text.at(at, ".Row is a whole row: want one of its columns, as in {{.Row.%s}}", slices.Concat(l.known.Columns, []string{"name"})[0])
	case path[0] == "Row" && len(path) > 2:
		return l.text.at(at, ".Row.%s is a text and has no .%s", path[1], path[2])
	case path[0] == "Row":
		return l.column(path[1], at)
	}
	return nil
}

func (l *lookup) column(name string, at int) error {
	switch {
	case len(l.known.Columns) == 0:
		return l.text.at(at, "column %q is wanted, but there is no data: %s", name, l.known.NoRows)
	case !slices.Contains(l.known.Columns, name):
		return l.text.at(at, "the data has no column %q: %s", name, spelling.Suggest(name, l.known.Columns))
	}
	return nil
}
