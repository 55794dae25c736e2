package wirelab

import (
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
	}
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
}

func (f goFile) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

// readPackages parses all Go files below tree up to their imports, leaving out
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
		syntax, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		folder := path.Dir(name)
		if packages[folder] == nil {
			packages[folder] = &goPackage{folder: folder}
		}
		packages[folder].files = append(packages[folder].files, goFile{name: path.Base(name), syntax: syntax})
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
	own, ok := roomOf(p.folder)
	if !ok {
		return []string{p.folder + ": is in no room; add it to the table in tidy_test.go or move it"}
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

// roomOf finds the room that holds folder.
func roomOf(folder string) (room, bool) {
	for _, candidate := range rooms {
		if within(folder, candidate.folder) {
			return candidate, true
		}
	}
	return room{}, false
}

func within(folder, parent string) bool {
	return folder == parent || strings.HasPrefix(folder, parent+"/")
}

func withinAny(folder string, parents []string) bool {
	return slices.ContainsFunc(parents, func(parent string) bool { return within(folder, parent) })
}

// folderOf tells which folder of this module an import names, if any.
func folderOf(spec *ast.ImportSpec) (folder string, ours bool) {
	importPath, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return "", false // the parser would have refused it
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

// importing is one import of one package of this module by another.
type importing struct {
	from   string
	in     room
	to     string
	byTest bool
}

// judge says what is wrong with an import, or nothing. Test files may look
// sideways, at neighbours and siblings, because the suites and fakes that they
// need live there; like all others they may not look up.
func judge(i importing) string {
	target, known := roomOf(i.to)
	allowed, isPublic := public[i.in.folder]
	switch {
	case isPublic && within(i.to, "internal") && !withinAny(i.to, allowed):
		return fmt.Sprintf("%s is public and must not import %s", i.from, i.to)
	case withinAny(i.from, judging) && withinAny(i.to, measuring):
		return fmt.Sprintf("%s judges and must not import %s, which measures", i.from, i.to)
	case !known:
		return fmt.Sprintf("%s must not import %s, which is in no room", i.from, i.to)
	case target.level > i.in.level:
		return fmt.Sprintf("%s (level %d) must not import %s (level %d)", i.from, i.in.level, i.to, target.level)
	case target.level < i.in.level || i.byTest:
		return ""
	case target.folder != i.in.folder:
		return fmt.Sprintf("%s (level %d) must not import its neighbour %s (level %d)", i.from, i.in.level, i.to, target.level)
	}
	return judgeWithinRoom(i)
}

// judgeWithinRoom lets a package import what it contains and what contains it,
// the catalogue of a seam import all, and refuses siblings.
func judgeWithinRoom(i importing) string {
	switch {
	case i.in.seam && i.from == i.in.folder:
		return fmt.Sprintf("%s is a seam and must not import its own %s", i.from, i.to)
	case i.in.seam && i.from == i.in.folder+"/catalog":
		return ""
	case within(i.to, i.from) || within(i.from, i.to):
		return ""
	}
	return fmt.Sprintf("%s must not import its sibling %s", i.from, i.to)
}
