package wirelab

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// inspect returns every breach below tree, sorted.
func inspect(tree fs.FS) ([]string, error) {
	packages, err := readPackages(tree)
	if err != nil {
		return nil, err
	}
	var breaches []string
	for _, p := range packages {
		breaches = append(breaches, p.nameBreaches()...)
		breaches = append(breaches, p.commentBreaches()...)
		breaches = append(breaches, p.importBreaches()...)
		breaches = append(breaches, p.sizeBreaches()...)
	}
	breaches = append(breaches, commandBreaches(packages)...)
	slices.Sort(breaches)
	return breaches, nil
}

// goPackage is the Go files of one folder.
type goPackage struct {
	folder string
	files  []goFile
}

type goFile struct {
	name   string
	syntax *ast.File
	lines  int
}

// written says whether the file is part of the product and written by hand.
func (f goFile) written() bool { return !f.isTest() && !ast.IsGenerated(f.syntax) }

func (f goFile) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

// readPackages parses all Go files below tree, leaving out
// what the go command leaves out: testdata, hidden folders, nested modules other than rpc.
func readPackages(tree fs.FS) (map[string]*goPackage, error) {
	packages := make(map[string]*goPackage)
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && leftOut(tree, name) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		source, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder := path.Dir(name)
		if packages[folder] == nil {
			packages[folder] = &goPackage{folder: folder}
		}
		packages[folder].files = append(packages[folder].files, goFile{name: path.Base(name), syntax: syntax, lines: bytes.Count(source, []byte("\n"))})
		return nil
	})
	return packages, err
}

func leftOut(tree fs.FS, folder string) bool {
	base := path.Base(folder)
	if base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	if folder == "rpc" {
		return false // the second module of the workspace
	}
	_, err := fs.Stat(tree, path.Join(folder, "go.mod"))
	return err == nil
}

func (p *goPackage) nameBreaches() []string {
	var breaches []string
	for part := range strings.SplitSeq(p.folder, "/") {
		if slices.Contains(vague, part) {
			breaches = append(breaches, fmt.Sprintf("%s: %q does not say what the package holds", p.folder, part))
		}
	}
	return breaches
}

// commentBreaches asks for exactly one package comment in the files written by
// hand. Packages that are generated whole, or hold external tests only, need
// none.
func (p *goPackage) commentBreaches() []string {
	var written, commented []string
	for _, file := range p.files {
		if ast.IsGenerated(file.syntax) || strings.HasSuffix(file.syntax.Name.Name, "_test") {
			continue
		}
		written = append(written, file.name)
		if file.syntax.Doc != nil {
			commented = append(commented, file.name)
		}
	}
	switch {
	case len(written) > 0 && len(commented) == 0:
		return []string{p.folder + ": has no package comment"}
	case len(commented) > 1:
		return []string{fmt.Sprintf("%s: has %d package comments, wants one (in %s)", p.folder, len(commented), strings.Join(commented, ", "))}
	}
	return nil
}

func (p *goPackage) importBreaches() []string {
	own, ok := houseOf(p.folder)
	if !ok {
		return []string{p.folder + ": is in no house; move it, or add its house to the table in tidy_test.go"}
	}
	var breaches []string
	for _, file := range p.files {
		for _, spec := range file.syntax.Imports {
			imported, ours := folderOf(spec)
			if !ours || imported == p.folder {
				continue
			}
			if complaint := judge(importing{from: p.folder, in: own, to: imported, byTest: file.isTest()}); complaint != "" {
				breaches = append(breaches, path.Join(p.folder, file.name)+": "+complaint)
			}
		}
	}
	return breaches
}

// houseOf finds the house that holds folder.
func houseOf(folder string) (house, bool) {
	for _, candidate := range houses {
		if within(folder, candidate.folder) {
			return candidate, true
		}
	}
	return house{}, false
}

func within(folder, parent string) bool {
	return folder == parent || strings.HasPrefix(folder, parent+"/")
}

func withinAny(folder string, parents []string) bool {
	return slices.ContainsFunc(parents, func(parent string) bool { return within(folder, parent) })
}

// folderOf returns the folder that an import names, if it is one of this repository.
func folderOf(spec *ast.ImportSpec) (folder string, ours bool) {
	importPath, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return "", false // the parser would have refused it
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

// An importing is one import of one package of this repository by another.
type importing struct {
	from   string
	in     house
	to     string
	byTest bool
}

// judge returns the fault of an import, or nothing. Test files may import a house
// beside their own, and siblings, because the suites and fakes that they need live there.
// Like all others they may not import a house above.
func judge(i importing) string {
	target, known := houseOf(i.to)
	switch {
	case !known:
		return fmt.Sprintf("%s must not import %s, which is in no house", i.from, i.to)
	case i.in.folder == "rpc" && target.folder != "rpc":
		return fmt.Sprintf("rpc must not import %s", i.to)
	case withinAny(i.from, judging) && withinAny(i.to, measuring):
		return fmt.Sprintf("%s judges and must not import %s, which measures", i.from, i.to)
	case target.level > i.in.level:
		return fmt.Sprintf("%s must not import %s, of a house above it", i.in.folder, i.to)
	case target.level < i.in.level || i.byTest:
		return ""
	case target.folder != i.in.folder:
		return fmt.Sprintf("%s must not import %s, of a house beside it", i.in.folder, i.to)
	}
	for _, seam := range seams {
		if within(i.from, seam) && within(i.to, seam) {
			return judgeWithinSeam(seam, i)
		}
	}
	return ""
}

func judgeWithinSeam(seam string, i importing) string {
	switch {
	case i.from == seam:
		return fmt.Sprintf("%s is a seam and must not import its own %s", i.from, i.to)
	case i.from == seam+"/catalog", within(i.to, i.from), within(i.from, i.to):
		return ""
	}
	return fmt.Sprintf("%s must not import its sibling %s", i.from, i.to)
}

// sizeBreaches counts the package's files, and those of its largest knot.
func (p *goPackage) sizeBreaches() []string {
	var files []goFile
	for _, file := range p.files {
		if file.written() {
			files = append(files, file)
		}
	}
	var breaches []string
	if len(files) > maxFiles {
		breaches = append(breaches, fmt.Sprintf("%s: has %d files, want at most %d", p.folder, len(files), maxFiles))
	}
	most := max(2, int(maxOfKnot*float64(len(files))))
	if knot := largestKnot(files); len(knot) > most {
		breaches = append(breaches, fmt.Sprintf("%s: %d of %d files form a knot, want at most %d (%s)", p.folder, len(knot), len(files), most, strings.Join(knot, ", ")))
	}
	return breaches
}

// commandBreaches counts the lines of all commands together.
func commandBreaches(packages map[string]*goPackage) []string {
	lines := 0
	for folder, p := range packages {
		for _, file := range p.files {
			if within(folder, "cmd") && file.written() {
				lines += file.lines
			}
		}
	}
	if lines > maxLinesOfCommands {
		return []string{fmt.Sprintf("cmd: has %d lines, want at most %d", lines, maxLinesOfCommands)}
	}
	return nil
}

// largestKnot returns the names of the files in the largest set whose members all reach
// each other. A file reaches another that declares a name which it uses: a type, a
// function, a variable or a constant of the package. Methods and fields do not count,
// since without types their names say nothing of where they are declared; nor does a name
// that several files declare, for several systems.
func largestKnot(files []goFile) []string {
	declaredIn := map[string][]int{}
	for i, file := range files {
		for name := range declaredNames(file.syntax) {
			declaredIn[name] = append(declaredIn[name], i)
		}
	}
	reaches := make([][]bool, len(files))
	for i, file := range files {
		reaches[i] = make([]bool, len(files))
		for name := range usedNames(file.syntax) {
			if in := declaredIn[name]; len(in) == 1 {
				reaches[i][in[0]] = true
			}
		}
	}
	for through := range files { // Warshall: what is reached through others
		for from := range files {
			for to := range files {
				reaches[from][to] = reaches[from][to] || reaches[from][through] && reaches[through][to]
			}
		}
	}
	var largest []string
	for i := range files {
		var knot []string
		for j := range files {
			if i == j || reaches[i][j] && reaches[j][i] {
				knot = append(knot, files[j].name)
			}
		}
		if len(knot) > len(largest) {
			largest = knot
		}
	}
	return largest
}

// declaredNames returns the names of the file's types, functions, variables and constants.
func declaredNames(file *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names[d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					names[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, name := range s.Names {
						names[name.Name] = true
					}
				}
			}
		}
	}
	delete(names, "_")
	return names
}

// usedNames returns the identifiers of a file that may name something of its package: not
// what follows a dot, no keys, and no names that the file's functions declare for themselves.
func usedNames(file *ast.File) map[string]bool {
	used := map[string]bool{}
	for _, declaration := range file.Decls {
		local := map[string]bool{}
		ast.Inspect(declaration, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				for _, name := range n.Names {
					local[name.Name] = true
				}
			case *ast.AssignStmt:
				if n.Tok == token.DEFINE {
					for _, to := range n.Lhs {
						if name, ok := to.(*ast.Ident); ok {
							local[name.Name] = true
						}
					}
				}
			}
			return true
		})
		var collect func(n ast.Node) bool
		collect = func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				ast.Inspect(n.X, collect)
				return false
			case *ast.KeyValueExpr: // a key is mostly a field
				if _, is := n.Key.(*ast.Ident); is {
					ast.Inspect(n.Value, collect)
					return false
				}
			case *ast.Ident:
				if !local[n.Name] {
					used[n.Name] = true
				}
			}
			return true
		}
		ast.Inspect(declaration, collect)
	}
	return used
}
