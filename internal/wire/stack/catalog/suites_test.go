package catalog

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest"
)

// suites holds, by "STACK SUITE", the suites that a package's tests run, and the reasons
// for which they skip one.
type suites struct {
	run     map[string]bool
	skipped map[string]string
}

// TestStacksRunEverySuite reads the tests beside each stack.
func TestStacksRunEverySuite(t *testing.T) {
	for _, s := range Stacks() {
		folder := filepath.Join("..", path.Base(reflect.TypeOf(s).PkgPath()))
		if carried, is := s.(stack.PeerCarried); is {
			folder = filepath.Join("..", "..", "..", "..", "peers", carried.CarriedBy())
		}
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no tests in %s: %v", s.Info().Name, folder, err)
		}
		found := suites{run: map[string]bool{}, skipped: map[string]string{}}
		for _, file := range files {
			syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			found.read(syntax)
		}
		for _, complaint := range found.complaints(t.Logf, s.Info().Name) {
			t.Error(complaint)
		}
	}
}

// read notes the variants that stand in a function that calls a suite, and the
// skips that are declared.
func (s suites) read(file *ast.File) {
	for _, declaration := range file.Decls {
		var called []string
		var named []string // stacks
		ast.Inspect(declaration, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.CallExpr:
				if name, is := ofStacktest(n.Fun); is {
					called = append(called, name)
				}
			case *ast.BasicLit:
				if v, err := scenario.ParseVariant(text(n)); err == nil {
					named = append(named, v.Stack)
				}
			case *ast.CompositeLit:
				if name, is := ofStacktest(n.Type); is && name == "Skips" {
					s.readSkips(n)
				}
			}
			return true
		})
		for _, suite := range called {
			for _, name := range named {
				s.run[name+" "+suite] = true
			}
		}
	}
}

func (s suites) readSkips(skips *ast.CompositeLit) {
	for _, element := range skips.Elts {
		fields := map[string]string{}
		for _, field := range element.(*ast.CompositeLit).Elts {
			pair := field.(*ast.KeyValueExpr)
			fields[pair.Key.(*ast.Ident).Name] = text(pair.Value)
		}
		s.skipped[fields["Stack"]+" "+fields["Suite"]] = fields["Reason"]
	}
}

func ofStacktest(e ast.Expr) (name string, is bool) {
	selector, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	room, ok := selector.X.(*ast.Ident)
	return selector.Sel.Name, ok && room.Name == "stacktest"
}

func text(e ast.Expr) string {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return ""
	}
	unquoted, _ := strconv.Unquote(literal.Value)
	return unquoted
}

func (s suites) complaints(logf func(string, ...any), stack string) []string {
	var all []string
	for _, suite := range stacktest.Suites {
		key := stack + " " + suite
		reason, skips := s.skipped[key]
		switch {
		case s.run[key] && skips:
			all = append(all, fmt.Sprintf("%s runs stacktest.%s and says that it skips it", stack, suite))
		case skips && reason != "":
			logf("%s skips stacktest.%s: %s", stack, suite, reason)
		case !s.run[key]:
			all = append(all, fmt.Sprintf("%s does not run stacktest.%s: run it in the stack's test, or declare there `var _ = stacktest.Skips{{Stack: %q, Suite: %q, Reason: …}}`", stack, suite, stack, suite))
		}
	}
	return all
}

// TestSkippedSuitesAreNoticed plants each fault.
func TestSkippedSuitesAreNoticed(t *testing.T) {
	const all = `package toy
var _ = stacktest.Skips{{Stack: "toy", Suite: "RunSecurity", Reason: "it has no TLS"}, {Stack: "toy", Suite: "RunLeaks", Reason: ""}}
func TestSuite(t *testing.T) { for _, v := range []string{"toy:a=b", "other"} { stacktest.Run(t, subject(v)) } }
func TestElsewhere(t *testing.T) { stacktest.RunLeaks(t, subject("other")) }
var _ = stacktest.Skips{{Stack: "other", Suite: "Run", Reason: "but it runs"}}
`
	syntax, err := parser.ParseFile(token.NewFileSet(), "toy_test.go", all, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := suites{run: map[string]bool{}, skipped: map[string]string{}}
	found.read(syntax)
	var printed []string
	logf := func(format string, a ...any) { printed = append(printed, fmt.Sprintf(format, a...)) }
	if got := found.complaints(logf, "toy"); len(got) != 1 || !strings.Contains(got[0], "toy does not run stacktest.RunLeaks") {
		t.Errorf("of toy: %q, want the skip without a reason", got)
	}
	if !slices.Equal(printed, []string{"toy skips stacktest.RunSecurity: it has no TLS"}) {
		t.Errorf("printed: %q", printed)
	}
	got := found.complaints(logf, "other")
	if len(got) != 2 || !strings.Contains(got[0], "says that it skips it") || !strings.Contains(got[1], "other does not run stacktest.RunSecurity") {
		t.Errorf("of other: %q", got)
	}
}
