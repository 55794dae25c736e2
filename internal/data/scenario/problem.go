package scenario

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// An Error says what is wrong with a scenario file, and where.
type Error struct {
	File         string
	Line, Column int // from 1
	Text         string
	Excerpt      string // the line, its neighbours, and a mark below the place
}

// Error returns FILE:LINE:COLUMN: text, and the excerpt below.
func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s\n%s", e.File, e.Line, e.Column, e.Text, e.Excerpt)
}

// A problem is an error in a node of the tree.
type problem struct {
	node ast.Node
	text string
	key  string // of the value that is wrong; empty if it is not known
}

func (p *problem) Error() string { return p.text }

func problemf(node ast.Node, format string, args ...any) *problem {
	return &problem{node: node, text: fmt.Sprintf(format, args...)}
}

// KeyOf returns the key of the value that an error of [Scenario.Check] is about, or nothing.
func KeyOf(err error) string {
	if p, is := errors.AsType[*problem](err); is {
		return p.key
	}
	return ""
}

// A source is a file whose lines errors show.
type source struct {
	name string
	data []byte
}

func (s source) errorAt(line, column int, text string) *Error {
	lines := strings.Split(strings.TrimSuffix(string(s.data), "\n"), "\n")
	line = min(max(line, 1), len(lines))
	column = max(column, 1)
	var excerpt strings.Builder
	for n := max(line-2, 1); n <= min(line+1, len(lines)); n++ {
		fmt.Fprintf(&excerpt, "%5d | %s\n", n, strings.TrimRight(lines[n-1], "\r"))
		if n == line {
			fmt.Fprintf(&excerpt, "      | %s^\n", strings.Repeat(" ", column-1))
		}
	}
	return &Error{s.name, line, column, text, strings.TrimSuffix(excerpt.String(), "\n")}
}

func (s source) locate(p *problem) *Error {
	line, column := 1, 1
	if p.node != nil && p.node.GetToken() != nil && p.node.GetToken().Position != nil {
		line, column = start(p.node)
	}
	return s.errorAt(line, column, p.text)
}

// start returns the place where a node begins. The parser gives the place of a mapping's first
// colon, where no reader would look.
func start(node ast.Node) (line, column int) {
	token := node.GetToken()
	if m, ok := node.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		token = m.Values[0].Key.GetToken()
	}
	return token.Position.Line, token.Position.Column
}
