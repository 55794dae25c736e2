package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	texttemplate "text/template"

	"go.yaml.in/yaml/v3"
)

// A site holds all pages, and is built once.
type site struct {
	root, out, commands, gallery, Version string

	Page   *page   // the page that is written
	Groups []group // the navigation
	pages  map[string]*page
	files  map[string][]byte // by their place in the site
}

// A group is a part of the navigation. A page stands in the first group with a pattern for it.
type group struct {
	Title    string
	Patterns []string
	Pages    []*page `yaml:"-"`
}

// Open says whether the navigation shows the group's pages: a long list only beside one of them.
func (g group) Open(p *page) bool { return len(g.Pages) < 40 || slices.Contains(g.Pages, p) }

var (
	//go:embed page.html llms.txt study.md gallery.md
	carried embed.FS
	//go:embed groups.yaml
	navigation []byte
	//go:embed style.css
	style []byte
	//go:embed search.js
	script  []byte
	layout  = template.Must(template.ParseFS(carried, "page.html"))
	plainly = texttemplate.Must(texttemplate.ParseFS(carried, "*.md", "llms.txt"))
)

func (s *site) build() error {
	s.pages, s.files = map[string]*page{}, map[string][]byte{}
	err := s.collect()
	for _, source := range slices.Sorted(maps.Keys(s.pages)) {
		err = errors.Join(err, s.render(s.pages[source]))
	}
	for _, source := range slices.Sorted(maps.Keys(s.pages)) {
		for _, l := range s.pages[source].links {
			if wrong := s.check(l); wrong != "" {
				err = errors.Join(err, fmt.Errorf("%s:%d: %s", source, l.line, wrong))
			}
		}
	}
	if err == nil {
		err = errors.Join(s.compose(), os.RemoveAll(s.out))
	}
	for name, content := range s.files {
		if err != nil {
			break
		}
		file := filepath.Join(s.out, filepath.FromSlash(name))
		err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o644))
	}
	return err
}

// collect reads the documents, and adds those that are made from studies and finished runs.
func (s *site) collect() error {
	err := s.read(s.root, "*.md", "docs/*.md", "docs/guides/*.md", "docs/decisions/*.md", "rpc/*.md", "rpc/*/*.md", "examples/*/*.md", "docs/schema/*.json")
	if s.commands != "" {
		err = errors.Join(err, s.read(s.commands, "commands/*.md"))
	}
	results := filepath.Join("docs", "results", "claims.md") // of wirelab replicate; a clone may have none
	measured, failed := os.ReadFile(filepath.Join(s.root, results))
	if failed == nil {
		s.add(filepath.ToSlash(results), measured)
	}
	studies, _ := filepath.Glob(filepath.Join(s.root, "studies", "*.yaml")) // the pattern is well formed
	for _, file := range studies {
		var study struct {
			Name, Title, Question, Published, Measured, Found string // Found is the study's part of the results
			Claims                                            []struct{ Row, Says string }
			Reports                                           []string // of replications in the gallery
		}
		study.Reports, _ = fs.Glob(os.DirFS(s.gallery), "*/"+strings.TrimSuffix(filepath.Base(file), ".yaml")+"/report.html")
		text, failed := os.ReadFile(file)
		err = errors.Join(err, failed, yaml.Unmarshal(text, &study))
		study.Measured, study.Found = found(string(measured), study.Title)
		if len(study.Claims) > 0 && study.Claims[0].Row != "" {
			err = errors.Join(err, s.write("studies/"+study.Name+".md", "study.md", study))
		}
	}
	if s.gallery == "" {
		return err
	}
	runs := map[string]struct{ Title, Command string }{}
	for _, pattern := range []string{"*/report.html", "*/*/report.html", "*/claims.html"} { // also of a replication
		reports, _ := fs.Glob(os.DirFS(s.gallery), pattern)
		for _, file := range reports {
			text, failed := os.ReadFile(filepath.Join(s.gallery, file))
			err, s.files["gallery/"+file] = errors.Join(err, failed), text
			_, title, _ := strings.Cut(string(text), "<title>")
			title, _, _ = strings.Cut(title, "</title>")
			var manifest struct{ Command []string }
			text, _ = os.ReadFile(filepath.Join(s.gallery, path.Dir(file), "manifest.json")) // a replication has none
			_ = json.Unmarshal(text, &manifest)
			command, _, _ := strings.Cut(strings.Join(manifest.Command, " "), " -o ")
			runs[file] = struct{ Title, Command string }{strings.TrimSuffix(title, " · wirelab"), command}
		}
	}
	if len(runs) == 0 {
		err = errors.Join(err, fmt.Errorf("%s has no RUN/report.html: run make gallery, or copy directories of finished runs into it", s.gallery))
	}
	return errors.Join(err, s.write("gallery/README.md", "gallery.md", runs))
}

// found returns of a replication's results when and where they were measured, and a study's part.
func found(results, title string) (measured, part string) {
	parts := strings.Split(results, "\n## ")
	for _, part := range parts[1:] {
		if heading, rest, _ := strings.Cut(part, "\n"); strings.HasPrefix(heading, title) { // which may say that it was quick
			return strings.Split(parts[0], "\n\n")[1], strings.TrimSpace(rest)
		}
	}
	return "", ""
}

// read adds the files of a folder that the patterns name.
func (s *site) read(folder string, patterns ...string) error {
	for _, pattern := range patterns {
		files, _ := fs.Glob(os.DirFS(folder), pattern)
		if len(files) == 0 {
			return fmt.Errorf("%s has no %s: name another folder", folder, pattern)
		}
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join(folder, file))
			if s.add(file, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// write adds a document that a template makes.
func (s *site) write(source, template string, data any) error {
	var text bytes.Buffer
	err := plainly.ExecuteTemplate(&text, template, data)
	s.add(source, text.Bytes())
	return err
}

// add adds a file of the repository; a document becomes a page too.
func (s *site) add(source string, text []byte) {
	s.files[source] = text // also a schema, for links in plain Markdown
	if strings.HasSuffix(source, ".md") {
		s.pages[source] = &page{Source: source, Address: address(source), text: text}
	} else {
		s.files[address(source)] = text
	}
}

// check returns what is wrong with a link, or nothing. A linked file comes into the site.
func (s *site) check(l link) string {
	if p := s.pages[l.path]; p != nil && p.anchors[l.fragment] {
		return ""
	} else if p != nil {
		return fmt.Sprintf("%s has no heading or anchor #%s: correct the link", l.path, l.fragment)
	}
	if s.files[address(l.path)] == nil {
		text, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(l.path)))
		if err != nil || strings.HasSuffix(l.path, ".md") {
			return fmt.Sprintf("%s is no file of the site: link to a file of the repository, or to a page", l.path)
		}
		s.files[address(l.path)] = text
	}
	return ""
}

// compose makes the HTML of all pages, the index of the search, and llms.txt.
func (s *site) compose() error {
	err := yaml.Unmarshal(navigation, &s.Groups)
	grouped := map[string]bool{}
	for i := range s.Groups {
		g := &s.Groups[i]
		for _, pattern := range g.Patterns {
			for _, source := range slices.Sorted(maps.Keys(s.pages)) {
				if is, _ := path.Match(pattern, source); is && !grouped[source] {
					grouped[source], g.Pages = true, append(g.Pages, s.pages[source])
				}
			}
		}
	}
	var sections []section
	for _, p := range s.pages {
		sections, s.Page = append(sections, p.sections...), p
		var html bytes.Buffer
		err = errors.Join(err, layout.Execute(&html, s))
		s.files[p.Address] = html.Bytes()
	}
	slices.SortFunc(sections, func(a, b section) int { return strings.Compare(a.Address, b.Address) })
	index, failed := json.Marshal(sections)
	s.files["search-index.js"] = append([]byte("window.searchIndex = "), index...)
	var list bytes.Buffer
	err = errors.Join(err, failed, plainly.ExecuteTemplate(&list, "llms.txt", s))
	s.files["llms.txt"], s.files["style.css"], s.files["search.js"] = list.Bytes(), style, script
	return err
}
