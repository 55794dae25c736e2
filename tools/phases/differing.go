package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A selection names the packages and the tests of one run of go test.
type selection struct {
	packages []string
	tests    []string // names of the tests of all packages, without benchmarks
}

func (s selection) pattern() string { return "-run=^(" + strings.Join(s.tests, "|") + ")$" }

// findDifferingTests returns tests that behave differently without -short and the race
// detector, and the packages with such tests or with benchmarks. A test differs if its declaration,
// or one that it names, asks for -short, counts allocations, or is built only with or without the
// detector. findDifferingTests compares names without types, so it may choose too many tests, but
// never too few.
func findDifferingTests(ctx context.Context, module string, patterns []string) (selection, error) {
	const format = `{{.Name}}	{{.ImportPath}}	{{.Dir}}`
	out, err := goList(ctx, module, format, patterns)
	if err != nil {
		return selection{}, err
	}
	sources := map[string]declarations{} // the declarations in test files, by package
	suites := map[string]bool{}          // names in other files that differ, as in stacktest.Run
	var order []string
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		files, err := filepath.Glob(filepath.Join(fields[2], "*.go"))
		if err != nil {
			return selection{}, err
		}
		own, tests := declarations{}, declarations{}
		for _, file := range files {
			into := own
			if strings.HasSuffix(file, "_test.go") {
				into = tests
			}
			if err := into.read(file); err != nil {
				return selection{}, err
			}
		}
		for name := range own.differing(nil) {
			suites[fields[0]+"."+name] = true
		}
		order = append(order, fields[1])
		sources[fields[1]] = tests
	}
	var found selection
	for _, pkg := range order {
		chosen := false
		for name := range sources[pkg].differing(suites) {
			switch {
			case strings.HasPrefix(name, "Benchmark"):
				chosen = true
			case strings.HasPrefix(name, "Test"), strings.HasPrefix(name, "Fuzz"), strings.HasPrefix(name, "Example"):
				chosen = true
				found.tests = append(found.tests, name)
			}
		}
		if chosen {
			found.packages = append(found.packages, pkg)
		}
	}
	slices.Sort(found.tests)
	found.tests = slices.Compact(found.tests)
	return found, nil
}

// declarations holds the top-level declarations of some files by name. Methods with the same
// name share one entry.
type declarations map[string]*declaration

type declaration struct {
	differs bool
	uses    map[string]bool // the names in the declaration, as in Name or pkg.Name
}

// raceConstraint matches the build constraint of a file that depends on the race detector.
var raceConstraint = regexp.MustCompile(`(?m)^//go:build .*\brace\b`)

func (d declarations) read(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	syntax, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("look for tests that differ: %w", err)
	}
	for _, top := range syntax.Decls {
		for _, name := range namesOf(top) {
			if d[name] == nil {
				d[name] = &declaration{uses: map[string]bool{}}
			}
			d[name].read(top)
			d[name].differs = d[name].differs || raceConstraint.Match(text) || strings.HasPrefix(name, "Benchmark")
		}
	}
	return nil
}

func namesOf(top ast.Decl) []string {
	switch top := top.(type) {
	case *ast.FuncDecl:
		return []string{top.Name.Name}
	case *ast.GenDecl:
		var names []string
		for _, spec := range top.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, spec.Name.Name)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					names = append(names, name.Name)
				}
			}
		}
		return names
	}
	return nil
}

func (d *declaration) read(top ast.Decl) {
	ast.Inspect(top, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			d.uses[n.Name] = true
		case *ast.SelectorExpr:
			if pkg, is := n.X.(*ast.Ident); is {
				d.uses[pkg.Name+"."+n.Sel.Name] = true
			}
		}
		return true
	})
	d.differs = d.differs || d.uses["testing.Short"] || d.uses["testing.AllocsPerRun"]
}

// differing returns the names that differ, or that use a name that differs, in d or in suites.
func (d declarations) differing(suites map[string]bool) map[string]bool {
	found := map[string]bool{}
	for grows := true; grows; {
		grows = false
		for name, one := range d {
			if found[name] {
				continue
			}
			differs := one.differs
			for used := range one.uses {
				differs = differs || suites[used] || found[used]
			}
			if differs {
				found[name], grows = true, true
			}
		}
	}
	return found
}
