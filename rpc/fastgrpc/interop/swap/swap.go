// Package swap makes programs that use grpc-go use fastgrpc. It copies a module out of the module
// cache, rewrites the names of package grpc that construct clients and servers, and builds the
// programs. It reports every change beyond the import, for a table.
//
//	module cache ── Copy ──> folder ── Rewrite ──> folder ── Build ──> programs
//
// It must not know which programs it rewrites.
package swap

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	grpcPath = "google.golang.org/grpc"
	fastPath = "wirelab.dev/rpc/fastgrpc"
)

// otherNames maps grpc-go's names to fastgrpc's if they differ.
var otherNames = map[string]string{
	"ChainUnaryInterceptor":      "UnaryInterceptor",
	"ChainStreamInterceptor":     "StreamInterceptor",
	"WithChainUnaryInterceptor":  "WithUnaryInterceptor",
	"WithChainStreamInterceptor": "WithStreamInterceptor",
}

// otherTypes maps grpc-go's exported types to fastgrpc's.
var otherTypes = map[string]string{
	"ClientConn": "Client", "DialOption": "ClientOption", "Server": "Server", "ServerOption": "ServerOption",
}

// otherMethods maps methods of a client's connection to their other names.
var otherMethods = map[string]string{"GetState": "State"}

// Copy copies a required module of the current module into a folder, and makes it writable.
func Copy(module, into string) error {
	if _, err := run("mod", "download", module); err != nil {
		return err
	}
	from, err := run("list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return err
	}
	return os.CopyFS(into, os.DirFS(from))
}

// run runs the go command and returns its output.
func run(arguments ...string) (string, error) {
	out, err := exec.Command("go", arguments...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("go %s: %w\n%s", strings.Join(arguments, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// Rewriter rewrites programs. It reads the names from the current versions of both libraries.
type Rewriter struct {
	options map[string]bool // functions of package grpc that return an option
	fast    map[string]bool // the names that package fastgrpc exports
}

// NewRewriter reads the source of both libraries.
func NewRewriter() (*Rewriter, error) {
	r := &Rewriter{options: map[string]bool{}, fast: map[string]bool{}}
	for path, see := range map[string]func(*ast.FuncDecl){
		grpcPath: func(f *ast.FuncDecl) {
			if results := f.Type.Results; results != nil && len(results.List) == 1 {
				if result, ok := results.List[0].Type.(*ast.Ident); ok && (result.Name == "DialOption" || result.Name == "ServerOption") {
					r.options[f.Name.Name] = true
				}
			}
		},
		fastPath: func(f *ast.FuncDecl) { r.fast[f.Name.Name] = true },
	} {
		list, err := run("list", "-f", "{{range .GoFiles}}{{$.Dir}}/{{.}}\n{{end}}", path)
		if err != nil {
			return nil, err
		}
		for name := range strings.Lines(list) {
			file, err := parser.ParseFile(token.NewFileSet(), strings.TrimSpace(name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.IsExported() {
					see(f)
				}
			}
		}
	}
	return r, nil
}

// Folder rewrites the Go files in a folder, without its subfolders. It returns the changes beyond
// the import, as "grpc-go's name → fastgrpc's".
func (r *Rewriter) Folder(dir string) (changed []string, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out, changed, err := r.Source(name, text)
		if err != nil {
			return nil, err
		}
		for _, c := range changed {
			all[c] = true
		}
		if err := os.WriteFile(name, out, 0o600); err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// Source rewrites one file.
func (r *Rewriter) Source(name string, text []byte) (out []byte, changed []string, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	grpc := importName(file)
	if grpc == "" || ast.IsGenerated(file) {
		return text, nil, nil
	}
	pass := pass{Rewriter: r, grpc: grpc, kept: map[*ast.SelectorExpr]bool{}}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType:
			pass.keepInterceptor(n)
		case *ast.SelectorExpr:
			pass.selector(n)
		}
		return true
	})
	if !pass.swapped {
		return text, nil, nil
	}
	addImport(file, pass.others)
	var b bytes.Buffer
	if err := printer.Fprint(&b, files, file); err != nil {
		return nil, nil, err
	}
	return b.Bytes(), pass.changed, nil
}

// importName returns the name under which the file imports package grpc, or "" if it does not.
func importName(file *ast.File) string {
	for _, spec := range file.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err == nil && path == grpcPath {
			if spec.Name != nil {
				return spec.Name.Name
			}
			return "grpc"
		}
	}
	return ""
}

// addImport imports fastgrpc. It replaces package grpc if the file uses nothing else of it.
func addImport(file *ast.File, others bool) {
	for _, d := range file.Decls {
		imports, ok := d.(*ast.GenDecl)
		if !ok || imports.Tok != token.IMPORT {
			continue
		}
		for i, s := range imports.Specs {
			spec := s.(*ast.ImportSpec)
			if spec.Path.Value != strconv.Quote(grpcPath) {
				continue
			}
			fast := &ast.ImportSpec{Path: &ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(fastPath)}}
			if others {
				// Use the place of grpc's import, so that comments stay in place.
				fast.Path.ValuePos = spec.Path.ValuePos
				imports.Specs = slices.Insert(imports.Specs, i, ast.Spec(fast))
				if imports.Lparen == token.NoPos {
					imports.Lparen, imports.Rparen = spec.Pos(), spec.End()
				}
			} else {
				spec.Path.Value, spec.Name = fast.Path.Value, nil
			}
			return
		}
	}
}

// A pass holds the findings in one file.
type pass struct {
	*Rewriter
	grpc    string // the name of package grpc
	kept    map[*ast.SelectorExpr]bool
	swapped bool
	others  bool // the file uses other names of package grpc
	changed []string
}

// keepInterceptor keeps the types of an interceptor: fastgrpc uses grpc-go's, too.
func (p *pass) keepInterceptor(f *ast.FuncType) {
	var found []*ast.SelectorExpr
	interceptor := false
	ast.Inspect(f.Params, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			found = append(found, s)
			interceptor = interceptor || s.Sel.Name == "UnaryInvoker" || s.Sel.Name == "Streamer"
		}
		return true
	})
	if interceptor {
		for _, s := range found {
			p.kept[s] = true
		}
	}
}

func (p *pass) selector(s *ast.SelectorExpr) {
	if to, ok := otherMethods[s.Sel.Name]; ok {
		p.changed = append(p.changed, s.Sel.Name+" → "+to)
		s.Sel.Name = to
		return
	}
	x, ok := s.X.(*ast.Ident)
	if !ok || x.Name != p.grpc {
		return
	}
	name := s.Sel.Name
	other, isType := otherTypes[name]
	if p.kept[s] || !isType && !p.options[name] && name != "NewServer" && name != "NewClient" {
		p.others = true
		return
	}
	p.swapped = true
	x.Name = "fastgrpc"
	switch {
	case isType:
		s.Sel.Name = other
	case !p.fast[name] && otherNames[name] != "":
		s.Sel.Name = otherNames[name]
		p.changed = append(p.changed, name+" → "+s.Sel.Name)
	}
}

// Program is a package to build, and the name of its file.
type Program struct{ Package, File string }

// Build builds programs with other modules in place of those that the current module
// requires: folders by module path. It returns the compiler's output for each that failed.
func Build(into string, replaced map[string]string, programs ...Program) (failed map[Program]string, err error) {
	modfile, err := modfileWith(into, replaced)
	if err != nil {
		return nil, err
	}
	failed = map[Program]string{}
	for _, p := range programs {
		// Some programs look for files beside their source, whose path -trimpath hides.
		build := exec.Command("go", "build", "-trimpath=false", "-modfile="+modfile, "-ldflags=-s -w", "-o", filepath.Join(into, p.File), p.Package)
		build.Env = append(os.Environ(), "GOWORK=off") // -modfile is refused in a workspace
		if out, err := build.CombinedOutput(); err != nil {
			failed[p] = fmt.Sprintf("%v\n%s", err, out)
		}
	}
	return failed, nil
}

// modfileWith writes the current module's go.mod with the modules replaced, and its go.sum.
func modfileWith(into string, replaced map[string]string) (string, error) {
	modfile := filepath.Join(into, "swapped.mod")
	own, err := run("env", "GOMOD")
	if err != nil {
		return "", err
	}
	for _, suffix := range []string{".mod", ".sum"} {
		data, err := os.ReadFile(strings.TrimSuffix(own, ".mod") + suffix)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(strings.TrimSuffix(modfile, ".mod")+suffix, data, 0o600); err != nil {
			return "", err
		}
	}
	edit := []string{"mod", "edit"}
	for module, dir := range replaced {
		edit = append(edit, "-replace="+module+"="+dir)
	}
	_, err = run(append(edit, modfile)...)
	return modfile, err
}
