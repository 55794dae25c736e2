// Package template implements the template language of requests: for `wirelab load`, and for the
// steps of users.
//
//	text ── Parse ──> Text ── Call.BindForm ──> Text of one client ── Call.Render ──> bytes
//	       (names)  (shared)
//
// The language is a part of Go's text/template. Parse looks up every name, so that errors are found
// before anything is sent. No template runs forever: {{range}} is not allowed, and values and
// output are limited.
//
// This package must not know how requests are carried, nor when.
package template

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	"wirelab.dev/internal/base/pattern"
	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/wire/service"
)

// A Text is a template, or a fixed text. Any number of clients may share it.
type Text struct {
	Name     string // used in errors, such as "the body"
	source   string
	template *template.Template // nil means a fixed text
}

// Fixed reports whether the text is the same in every call.
func (t *Text) Fixed() bool { return t.template == nil }

// A Form is a request that may contain templates. Any number of clients may share it.
type Form struct {
	Fixed  service.Request // the parts without templates
	Path   Text
	Header []Text // values of the header fields in Fixed
	Body   Text
}

// errorAt returns an error with the line and column of an offset in the source.
func (t *Text) errorAt(offset int, format string, args ...any) error {
	before := t.source[:min(max(offset, 0), len(t.source))]
	return fmt.Errorf("%s, line %d, column %d: %s", t.Name, strings.Count(before, "\n")+1, len(before)-strings.LastIndexByte(before, '\n'), fmt.Sprintf(format, args...))
}

// errorPlace matches the start of a text/template error: the template's name, the line and, in
// execution errors, the column, counted from 0.
var errorPlace = pattern.Lazy(`^template: .*?:(\d+):(?:(\d+):)? (?s:(.*))$`)

// parseError adds the place to the parser's error, which has only a line. It uses the column of
// the first template on that line.
func (t *Text) parseError(err error) error {
	said := errorPlace().FindStringSubmatch(err.Error())
	if said == nil {
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	line, _ := strconv.Atoi(said[1]) // the pattern allows only digits
	start := 0
	for ; line > 1; line-- {
		start += strings.IndexByte(t.source[start:], '\n') + 1
	}
	end := len(t.source)
	if next := strings.IndexByte(t.source[start:], '\n'); next >= 0 {
		end = start + next
	}
	reason := said[3]
	switch reason {
	case "unclosed action":
		reason = "found {{ without }}: close the template, as in {{.N}}"
	case "unexpected EOF":
		reason = "found {{if}} without {{end}}"
	}
	return t.errorAt(start+max(strings.Index(t.source[start:end], "{{"), 0), "%s", reason)
}

func (t *Text) executeError(err error) error {
	if errors.Is(err, errTooLong) {
		return fmt.Errorf("%s: %w", t.Name, errTooLong)
	}
	said := errorPlace().FindStringSubmatch(err.Error())
	if len(said) != 4 || said[2] == "" {
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	column, _ := strconv.Atoi(said[2]) // the pattern allows only digits
	reason := said[3]
	if _, after, found := strings.Cut(reason, " at <"); found {
		reason = "at <" + after
	}
	return fmt.Errorf("%s, line %s, column %d: %s", t.Name, said[1], column+1, reason)
}

const maxOutput = 16 << 20

var errTooLong = fmt.Errorf("the template's output is longer than %d MiB", maxOutput>>20)

type limitedBuffer struct{ *bytes.Buffer }

func (l limitedBuffer) Write(b []byte) (int, error) {
	if l.Len()+len(b) > maxOutput {
		return 0, errTooLong
	}
	return l.Buffer.Write(b)
}

// Names lists the names that a template may use in addition to Fields and Functions.
type Names struct {
	Columns []string // names that may follow .Row
	NoRows  string   // tells the user how to get rows
	// Taken lists the values that earlier steps take from answers. They hide Fields of the same
	// name.
	Taken []string
	// Hint is added to the error about an unknown name.
	Hint string
}

// With returns the names plus one taken value.
func (n Names) With(taken string) Names {
	n.Taken = append(slices.Clone(n.Taken), taken)
	return n
}

const maxSource = 4 << 20

// HasTemplate reports whether a text contains a template.
func HasTemplate(text string) bool { return strings.Contains(text, "{{") }

// Parse parses a text and checks every name in it. A text without templates is always valid.
func Parse(name, source string, known Names) (Text, error) {
	t := Text{Name: name, source: source}
	if !HasTemplate(source) {
		return t, nil
	}
	if len(source) > maxSource {
		return t, fmt.Errorf("the template of %s has %d bytes: want at most %d MiB", name, len(source), maxSource>>20)
	}
	tree := parse.New(name)
	tree.Mode = parse.SkipFuncCheck // checkFunction checks the names and knows their columns
	trees := map[string]*parse.Tree{}
	if _, err := tree.Parse(source, "", "", trees); err != nil {
		return t, t.parseError(err)
	}
	if len(trees) > 1 || trees[name] == nil {
		return t, t.errorAt(strings.Index(source, "{{"), "{{define}} and {{block}} are not supported")
	}
	l := nameChecker{text: &t, known: known}
	if err := l.checkNode(tree.Root); err != nil {
		return t, err
	}
	var err error
	// These functions belong to an unused call: parsing needs only their names.
	t.template, err = template.New(name).Option("missingkey=error").Funcs((&Call{}).functions()).AddParseTree(name, tree)
	return t, err
}

// nameChecker checks that a tree uses only known names, and only nodes that cannot run forever.
type nameChecker struct {
	text  *Text
	known Names
}

func (l *nameChecker) checkNode(n parse.Node) error {
	switch n := n.(type) {
	case nil, *parse.TextNode, *parse.CommentNode, *parse.DotNode, *parse.NilNode, *parse.BoolNode, *parse.NumberNode, *parse.StringNode:
		return nil
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		return l.checkNodes(n.Nodes)
	case *parse.ActionNode:
		return l.checkNode(n.Pipe)
	case *parse.IfNode:
		return l.checkNodes([]parse.Node{n.Pipe, n.List, n.ElseList})
	case *parse.PipeNode:
		for _, command := range n.Cmds {
			if err := l.checkCommand(command); err != nil {
				return err
			}
		}
		return nil
	case *parse.IdentifierNode:
		return l.checkFunction(n)
	case *parse.FieldNode:
		if l.checkTakenName(n.Ident) {
			n.Ident = []string{"Taken", n.Ident[0]} // Call holds the taken values in its field Taken
			return nil
		}
		return l.checkField(n.Ident, n.Pos)
	case *parse.VariableNode:
		if n.Ident[0] != "$" || len(n.Ident) == 1 {
			return nil
		}
		if l.checkTakenName(n.Ident[1:]) {
			n.Ident = []string{"$", "Taken", n.Ident[1]}
			return nil
		}
		return l.checkField(n.Ident[1:], n.Pos)
	case *parse.ChainNode:
		return l.checkNode(n.Node)
	}
	// {{range}} can run forever, and {{with}} changes the meaning of names.
	return l.text.errorAt(int(n.Position()), "{{%s}} is not supported: use only {{if}}", strings.SplitN(strings.Trim(n.String(), "{} "), " ", 2)[0])
}

func (l *nameChecker) checkTakenName(path []string) bool {
	return len(path) == 1 && slices.Contains(l.known.Taken, path[0])
}

func (l *nameChecker) checkNodes(nodes []parse.Node) error {
	for _, n := range nodes {
		if err := l.checkNode(n); err != nil {
			return err
		}
	}
	return nil
}

// checkCommand checks a command, including the column in {{index .Row "first name"}}.
func (l *nameChecker) checkCommand(c *parse.CommandNode) error {
	if len(c.Args) == 3 {
		f, isIdentifier := c.Args[0].(*parse.IdentifierNode)
		row, isField := c.Args[1].(*parse.FieldNode)
		column, isText := c.Args[2].(*parse.StringNode)
		if isIdentifier && isField && isText && f.Ident == "index" && slices.Equal(row.Ident, []string{"Row"}) {
			return l.checkColumn(column.Text, int(column.Pos))
		}
	}
	return l.checkNodes(c.Args)
}

func (l *nameChecker) checkFunction(n *parse.IdentifierNode) error {
	if slices.Contains(Functions, n.Ident) {
		return nil
	}
	return l.text.errorAt(int(n.Pos), "there is no function %s: %s", n.Ident, spelling.Suggest(n.Ident, Functions))
}

func (l *nameChecker) checkField(path []string, pos parse.Pos) error {
	at := int(pos) // place of the last name in a chain such as .Row.name
	if !slices.Contains(Fields, path[0]) && (len(path) == 1 || !slices.Contains(l.known.Taken, path[0])) {
		return l.text.errorAt(at, "there is no .%s: %s%s", path[0], spelling.Suggest(path[0], slices.Concat(l.known.Taken, Fields)), l.known.Hint)
	}
	switch {
	case path[0] != "Row" && len(path) > 1:
		return l.text.errorAt(at, ".%s is a single value, so .%s cannot follow: leave .%[2]s out", path[0], path[1])
	case path[0] == "Row" && len(path) == 1:
		return l.text.errorAt(at, ".Row is a whole row: name one of the row's columns, as in {{.Row.%s}}", slices.Concat(l.known.Columns, []string{"name"})[0])
	case path[0] == "Row" && len(path) > 2:
		return l.text.errorAt(at, ".Row.%s is a text, so .%s cannot follow: leave .%[2]s out", path[1], path[2])
	case path[0] == "Row":
		return l.checkColumn(path[1], at)
	}
	return nil
}

func (l *nameChecker) checkColumn(name string, at int) error {
	switch {
	case len(l.known.Columns) == 0:
		return l.text.errorAt(at, "the template uses the column %q, but there is no data: %s", name, l.known.NoRows)
	case !slices.Contains(l.known.Columns, name):
		return l.text.errorAt(at, "the data has no column %q: %s", name, spelling.Suggest(name, l.known.Columns))
	}
	return nil
}
