package scenario

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Error is what is wrong with a scenario file, and where.
type Error struct {
	File         string
	Line, Column int // from 1
	Text         string
	Excerpt      string // the line, its neighbours, and a mark below the place
}

// Error is FILE:LINE:COLUMN: text, and the excerpt below.
func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s\n%s", e.File, e.Line, e.Column, e.Text, e.Excerpt)
}

// problem is what is wrong with a node of the tree.
type problem struct {
	node ast.Node
	text string
}

func (p *problem) Error() string { return p.text }

func problemf(node ast.Node, format string, args ...any) *problem {
	return &problem{node, fmt.Sprintf(format, args...)}
}

// source is a file that errors are shown in.
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

// start is where a node begins. The parser says of a mapping where its first
// colon is, which is not where a reader would look.
func start(node ast.Node) (line, column int) {
	token := node.GetToken()
	if m, ok := node.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		token = m.Values[0].Key.GetToken()
	}
	return token.Position.Line, token.Position.Column
}

// Suggest ends an error about an unknown word: with the word that was probably
// meant, or else with all known ones.
func Suggest(word string, among []string) string {
	if meant, found := Meant(word, among); found {
		return "did you mean " + meant + "?"
	}
	return "want one of " + strings.Join(among, ", ")
}

// Meant finds the word that was probably meant by an unknown one.
func Meant(word string, among []string) (meant string, found bool) {
	for slips := 1; slips <= 2; slips++ {
		for _, candidate := range among {
			// Two slips in three letters leave too little to compare.
			if slips <= (len(candidate)+1)/3 && distance(word, candidate) == slips {
				return candidate, true
			}
		}
	}
	return "", false
}

// distance is the least number of letters to insert, leave out, replace or
// swap with their neighbour, that turns a into b.
func distance(a, b string) int {
	// rows[i][j] is the distance of the first i letters of a from the first j of b.
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range b {
		rows[0][j+1] = j + 1
	}
	for i := range a {
		for j := range b {
			replaced := rows[i][j]
			if a[i] != b[j] {
				replaced++
			}
			rows[i+1][j+1] = min(replaced, rows[i][j+1]+1, rows[i+1][j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				rows[i+1][j+1] = min(rows[i+1][j+1], rows[i-1][j-1]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
