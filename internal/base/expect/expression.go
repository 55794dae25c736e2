package expect

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"
	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/pattern"
)

// longestExpression limits the length of an expression.
const longestExpression = 4 << 10

// An expression is a compiled expression with the names that it uses.
type expression struct {
	text      string
	program   *vm.Program
	uses      Uses
	readsText bool     // whether it uses the body as text
	looked    []string // names in the order of the expression
	paths     []string // arguments of json
	fields    []string // arguments of header that are literal texts
}

// A Mistake is an error in an expression.
type Mistake struct {
	Expression string
	Column     int // counted from 1
	Reason     string
}

// Error implements error. Its second line is the expression, its third marks the position.
func (m *Mistake) Error() string {
	return fmt.Sprintf("column %d: %s\n    %s\n    %s^", m.Column, m.Reason, m.Expression, strings.Repeat(" ", m.Column-1))
}

func compile(text string, kind Kind, result expr.Option) (*expression, error) {
	e := &expression{text: text}
	if text == "" || len(text) > longestExpression || strings.ContainsAny(text, "\r\n") {
		return nil, fmt.Errorf("found an expression of %d bytes: want 1 to %d bytes, in one line", len(text), longestExpression)
	}
	rewritten := rewrite(text)
	reader := &expressionReader{expression: e, kind: kind}
	options := []expr.Option{expr.Env(&namedValues{}), result, expr.DisableAllBuiltins(), expr.Patch(reader)}
	for _, name := range allowedFunctions {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := expr.Compile(string(rewritten.to), options...)
	var at int
	var reason string
	var wrong *file.Error
	switch {
	case reader.wrong != "":
		at, reason = reader.at, reader.wrong
	case errors.As(err, &wrong):
		at, reason = wrong.From, explainMistake(wrong.Message)
	case err != nil:
		first, _, _ := strings.Cut(err.Error(), "\n")
		reason = withoutPosition(first)
	default:
		e.program = program
		return e, nil
	}
	return nil, &Mistake{text, rewritten.originalPosition(at) + 1, reason}
}

// explainMistake rewrites an error of the expression language for people who write conditions.
func explainMistake(message string) string {
	switch {
	case strings.Contains(message, `unexpected token Operator("=")`):
		return "found =: compare values with =="
	case strings.HasPrefix(message, "unknown name "):
		return message + ": want " + UsableNames
	case strings.Contains(message, "mismatched types time.Duration and int"), strings.Contains(message, "mismatched types int and time.Duration"):
		return "latency: found a number without a unit, want a duration, as in 20ms"
	case strings.Contains(message, "unexpected token EOF"):
		return "the expression is incomplete: write the missing end"
	}
	return message
}

var positionAtEnd = pattern.Lazy(` \(\d+:\d+\)$`)

// withoutPosition removes from a message the position in the rewritten text.
func withoutPosition(message string) string { return positionAtEnd().ReplaceAllString(message, "") }

// expressionReader notes what an expression uses, and replaces names of codes.
type expressionReader struct {
	*expression
	kind  Kind
	wrong string // the first mistake that the expression language does not report
	at    int
}

// Visit implements ast.Visitor.
func (r *expressionReader) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		r.name(node, n)
	case *ast.CallNode:
		if callee, named := n.Callee.(*ast.IdentifierNode); named {
			r.call(callee.Value, n)
		}
	}
}

func (r *expressionReader) name(node *ast.Node, n *ast.IdentifierNode) {
	switch n.Value {
	case "status":
		r.uses.Status = true
	case "code":
		r.uses.Status = true
		if r.kind != GRPC {
			r.refuse(n, "code is for gRPC: for HTTP, compare status, as in status == 200")
		}
	case "latency":
		r.uses.Latency = true
	case "body":
		r.uses.Body, r.readsText = true, true
	case "size":
	default:
		if name, is := codeName(n.Value); is {
			ast.Patch(node, &ast.StringNode{Value: name})
		}
		return
	}
	r.looked = lists.AppendNew(r.looked, n.Value)
}

func (r *expressionReader) call(function string, n *ast.CallNode) {
	if function != "json" && function != "header" || len(n.Arguments) != 1 {
		return // the language reports the mistake
	}
	argument, isText := n.Arguments[0].(*ast.StringNode)
	switch {
	case function == "header":
		r.uses.Header = true
		if isText {
			r.fields = lists.AppendNew(r.fields, argument.Value)
		}
	case !isText:
		r.refuse(n.Arguments[0], "json takes a path, as in json(.items[0].id)")
	default:
		r.uses.Body = true
		r.paths = lists.AppendNew(r.paths, argument.Value)
		if _, err := parsePath(argument.Value); err != nil {
			r.refuse(argument, err.Error())
		}
	}
}

func (r *expressionReader) refuse(n ast.Node, reason string) {
	if r.wrong == "" {
		r.wrong, r.at = reason, n.Location().From
	}
}

// UsableNames lists the names that an expression may use, for help texts and errors.
const UsableNames = `status, code (of gRPC, as in code == OK), size, latency (as in latency < 20ms), body, json(.path[0].name), header("Name"), and contains, matches, startsWith, in, and, or, not`

// allowedFunctions lists the functions of the expression language that an expression may use.
var allowedFunctions = []string{
	"len", "all", "any", "none", "one", "count", "filter", "map", "sum", "first", "last", "keys", "values",
	"min", "max", "abs", "int", "float", "string", "lower", "upper", "trim", "duration",
}

// codeName returns Go's name of a gRPC code. It accepts Go's and gRPC's spelling.
func codeName(written string) (name string, is bool) {
	var specified codes.Code
	if specified.UnmarshalJSON([]byte(strconv.Quote(written))) == nil {
		return specified.String(), true
	}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if code.String() == written {
			return written, true
		}
	}
	return "", false
}

// A path leads to a value in JSON. Its elements are member names and array indices.
type path []any

var pathStep = pattern.Lazy(`^(?:\.([^.\[\]\s"'()]+)|\["(.*?)"\]|\['(.*?)'\]|\[(\d+)\])`)

// parsePath reads a path such as .a.b[0]["c d"]. A dot alone means the whole body.
func parsePath(text string) (path, error) {
	if text == "." {
		return path{}, nil
	}
	var p path
	for rest := text; ; {
		found := pathStep().FindStringSubmatch(rest)
		if found == nil {
			break
		}
		if found[4] == "" {
			p = append(p, found[1]+found[2]+found[3])
		} else if index, err := strconv.ParseUint(found[4], 10, 31); err == nil {
			p = append(p, int(index))
		} else {
			break
		}
		if rest = rest[len(found[0]):]; rest == "" {
			return p, nil
		}
	}
	return nil, fmt.Errorf(`json: found the path %q: want names after dots and indices in brackets, as in .items[0].id, or ["a name"]`, text)
}

func (p path) valueIn(value any) any {
	for _, step := range p {
		switch at := step.(type) {
		case string:
			members, _ := value.(map[string]any)
			value = members[at]
		case int:
			elements, _ := value.([]any)
			if at >= len(elements) {
				return nil
			}
			value = elements[at]
		}
	}
	return convertNumbers(value)
}

// convertNumbers converts JSON numbers to the expression language's types. Integers stay exact.
func convertNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if whole, err := strconv.Atoi(v.String()); err == nil {
			return whole
		}
		number, err := v.Float64()
		if err != nil {
			return v.String() // the number is too large for a float64
		}
		return number
	case []any:
		all := make([]any, len(v))
		for i, one := range v {
			all[i] = convertNumbers(one)
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, one := range v {
			all[name] = convertNumbers(one)
		}
		return all
	}
	return value
}
