// Package swap rewrites programs to use fastgrpc instead of grpc-go. It copies a module from the
// module cache, replaces the names of package grpc that construct clients and servers, and builds
// the programs. It reports each name that differs between both libraries, for a table.
//
//	module cache ─ CopyModule ─> folder ─ RewriteFolder ─> folder ─ Build ─> programs
//
// The package must not depend on particular programs.
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
	grpcPath     = "google.golang.org/grpc"
	fastgrpcPath = "wirelab.dev/rpc/fastgrpc"
)

// renamedFunctions maps names of grpc-go's functions to fastgrpc's different names.
var renamedFunctions = map[string]string{
	"ChainUnaryInterceptor":      "UnaryInterceptor",
	"ChainStreamInterceptor":     "StreamInterceptor",
	"WithChainUnaryInterceptor":  "WithUnaryInterceptor",
	"WithChainStreamInterceptor": "WithStreamInterceptor",
}

// renamedTypes maps names of grpc-go's types to the names of fastgrpc's types.
var renamedTypes = map[string]string{
	"ClientConn": "Client", "DialOption": "ClientOption", "Server": "Server", "ServerOption": "ServerOption",
}

// foreignOptions holds names of functions that take grpc-go's options in a program that keeps the
// type grpc.ClientConn. The package google.golang.org/api/option has the function.
var foreignOptions = map[string]bool{"WithGRPCDialOption": true}

// CopyModule copies a module that the current module requires into a folder. The copy is writable.
func CopyModule(module, into string) error {
	if _, err := runGo("mod", "download", module); err != nil {
		return err
	}
	from, err := runGo("list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return err
	}
	return os.CopyFS(into, os.DirFS(from))
}

// runGo runs the go command with these arguments and returns its output.
func runGo(arguments ...string) (string, error) {
	out, err := exec.Command("go", arguments...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("go %s: %w\n%s", strings.Join(arguments, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// Rewriter rewrites programs. It knows the names in the current versions of both libraries.
type Rewriter struct {
	// ClientConns makes programs keep the type grpc.ClientConn and call Client.ClientConn. It is for
	// programs that pass a *grpc.ClientConn to other modules.
	ClientConns bool

	options map[string]bool // names of package grpc's functions that return an option
	fast    map[string]bool // names of package fastgrpc's exported functions
}

// NewRewriter returns a Rewriter after it has read the source of both libraries.
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
		fastgrpcPath: func(f *ast.FuncDecl) { r.fast[f.Name.Name] = true },
	} {
		list, err := runGo("list", "-f", "{{range .GoFiles}}{{$.Dir}}/{{.}}\n{{end}}", path)
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

// RewriteFolder rewrites the Go files in a folder, but not in its subfolders. It returns each
// changed name as "grpc-go's name → fastgrpc's name".
func (r *Rewriter) RewriteFolder(dir string) (changed []string, err error) {
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
		out, changed, err := r.RewriteSource(name, text)
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

// RewriteModule rewrites the Go files of a module, but not of modules in its subfolders. It returns
// the changed names as RewriteFolder does.
func (r *Rewriter) RewriteModule(dir string) ([]string, error) {
	all := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != dir {
			return filepath.SkipDir
		}
		changed, err := r.RewriteFolder(path)
		for _, c := range changed {
			all[c] = true
		}
		return err
	})
	return slices.Sorted(maps.Keys(all)), err
}

// RewriteSource rewrites the text of one Go file. It also returns the changed names.
func (r *Rewriter) RewriteSource(name string, text []byte) (out []byte, changed []string, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	grpc := grpcImportName(file)
	if grpc == "" {
		return text, nil, nil
	}
	pass := fileRewrite{Rewriter: r, file: filepath.Base(name), grpc: grpc, kept: map[*ast.SelectorExpr]bool{}, dialers: map[dialer]bool{}}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType:
			pass.keepInterceptorTypes(n)
		case *ast.CompositeLit:
			n.Elts, _ = pass.dropOptions(n.Elts)
		case *ast.CallExpr:
			pass.keepForeignOptions(n)
			pass.rewriteCall(n)
		case *ast.SelectorExpr:
			pass.rewriteSelector(n)
		}
		return true
	})
	if !pass.swapped {
		return text, nil, nil
	}
	addFastgrpcImport(file, pass.others)
	var b bytes.Buffer
	if err := printer.Fprint(&b, files, file); err != nil {
		return nil, nil, err
	}
	b.WriteString(pass.dialerSource())
	return b.Bytes(), pass.changed, nil
}

// grpcImportName returns the name under which the file imports package grpc, or "" if it does not.
func grpcImportName(file *ast.File) string {
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

// addFastgrpcImport adds the import of fastgrpc. If others is false, the file needs nothing else of
// package grpc, and the new import replaces the import of grpc.
func addFastgrpcImport(file *ast.File, others bool) {
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
			fast := &ast.ImportSpec{Path: &ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(fastgrpcPath)}}
			if others {
				// Give both imports the same position, so that comments stay in place.
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

// A fileRewrite holds the state of rewriting one file.
type fileRewrite struct {
	*Rewriter
	file    string                     // the name of the file, without its folder
	grpc    string                     // the name under which the file imports package grpc
	kept    map[*ast.SelectorExpr]bool // names of package grpc that must not change
	swapped bool                       // a name of package grpc was replaced
	others  bool                       // the file still uses names of package grpc
	changed []string                   // the changed names, see RewriteFolder
	dialers map[dialer]bool            // functions that must be added to the file
}

// keepInterceptorTypes keeps the types of the parameters of an interceptor, a grpc.UnaryInvoker or
// a grpc.Streamer. fastgrpc uses them, too. All of them have at least five parameters.
func (p *fileRewrite) keepInterceptorTypes(f *ast.FuncType) {
	if f.Params.NumFields() < 5 {
		return
	}
	ast.Inspect(f.Params, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "CallOption" {
			p.keep(f.Params)
		}
		return true
	})
}

// keepForeignOptions keeps the arguments of functions of other modules that take grpc-go's options.
func (p *fileRewrite) keepForeignOptions(call *ast.CallExpr) {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok && foreignOptions[s.Sel.Name] {
		p.keep(call)
	}
}

// keep keeps all names of package grpc in a part of the file.
func (p *fileRewrite) keep(part ast.Node) {
	ast.Inspect(part, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			p.kept[s] = true
		}
		return true
	})
}

// grpcName returns the name if the expression is a name of package grpc, or "" if it is not.
func (p *fileRewrite) grpcName(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok && x.Name == p.grpc {
			return s.Sel.Name
		}
	}
	return ""
}

func (p *fileRewrite) rewriteSelector(s *ast.SelectorExpr) {
	x, ok := s.X.(*ast.Ident)
	if !ok || x.Name != p.grpc {
		return
	}
	name := s.Sel.Name
	other, isType := renamedTypes[name]
	isType = isType && !(p.ClientConns && name == "ClientConn")
	if p.kept[s] || !isType && !p.options[name] && name != "NewServer" && name != "NewClient" {
		p.others = true
		return
	}
	p.swapped = true
	x.Name = "fastgrpc"
	switch {
	case isType:
		s.Sel.Name = other
	case !p.fast[name] && renamedFunctions[name] != "":
		s.Sel.Name = renamedFunctions[name]
		p.changed = append(p.changed, name+" → "+s.Sel.Name)
	}
}

// Program is a package to build, and the name of the executable file.
type Program struct{ Package, File string }

// Build builds programs into the folder into. replaced maps module paths to folders, which replace
// these modules. Build returns the compiler's output for each program that does not compile.
func Build(into string, replaced map[string]string, programs ...Program) (failed map[Program]string, err error) {
	modfile, err := writeModfile(into, replaced)
	if err != nil {
		return nil, err
	}
	failed = map[Program]string{}
	for _, p := range programs {
		// Some programs need the path of their source to find other files; -trimpath would hide it.
		build := exec.Command("go", "build", "-trimpath=false", "-modfile="+modfile, "-ldflags=-s -w", "-o", filepath.Join(into, p.File), p.Package)
		build.Env = append(os.Environ(), "GOWORK=off") // the go command refuses -modfile in a workspace
		if out, err := build.CombinedOutput(); err != nil {
			failed[p] = fmt.Sprintf("%v\n%s", err, out)
		}
	}
	return failed, nil
}

// writeModfile writes copies of the current module's go.mod and go.sum into a folder, and replaces
// the modules in go.mod. It returns the path of the new go.mod.
func writeModfile(into string, replaced map[string]string) (string, error) {
	modfile := filepath.Join(into, "swapped.mod")
	own, err := runGo("env", "GOMOD")
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
	_, err = runGo(append(edit, modfile)...)
	return modfile, err
}
