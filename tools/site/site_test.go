package main

import (
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// home is the address of the site; the schemas' $id begin with it.
const home = "https://wirelab.dev/"

var leads = regexp.MustCompile(`\s(href|src)="([^"]*)"`)

// build makes the site of this repository in a temporary folder.
func build(t *testing.T) *site {
	t.Helper()
	s := &site{root: "../..", out: filepath.Join(t.TempDir(), "site"), Version: "v0"}
	if err := s.build(); err != nil {
		t.Fatal(err)
	}
	return s
}

// Each address in the written HTML is a file of the site, with its anchor, and no page asks
// another host for anything.
func TestEveryAddressIsInTheSite(t *testing.T) {
	s := build(t)
	if len(s.pages) < 120 {
		t.Errorf("the site has %d pages, want 120 at least", len(s.pages))
	}
	err := filepath.WalkDir(s.out, func(file string, entry os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".html") {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, found := range leads.FindAllStringSubmatch(string(text), -1) {
			target, err := url.Parse(found[2])
			switch {
			case err != nil:
				t.Errorf("%s: %s: %v", file, found[2], err)
			case found[2] == "data:," || found[1] == "href" && slices.Contains([]string{"http", "https", "mailto"}, target.Scheme):
			case target.IsAbs() || target.Host != "":
				t.Errorf("%s asks %s for a file", file, found[2])
			default:
				to := filepath.Join(filepath.Dir(file), filepath.FromSlash(target.Path))
				if target.Path == "" {
					to = file
				}
				text, err := os.ReadFile(to)
				if err != nil {
					t.Errorf("%s: %s: %v", file, found[2], err)
				} else if target.Fragment != "" && !strings.Contains(string(text), `id="`+target.Fragment+`"`) {
					t.Errorf("%s: %s has no such anchor", file, found[2])
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A schema has the address that its $id names, and each page its Markdown at the address that
// llms.txt names.
func TestAddressesForPrograms(t *testing.T) {
	s := build(t)
	schemas, err := filepath.Glob("../../docs/schema/*.json")
	if err != nil || len(schemas) < 20 {
		t.Fatalf("%d schemas: %v", len(schemas), err)
	}
	for _, file := range schemas {
		var schema struct {
			ID string `json:"$id"`
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &schema)
		}
		place, ours := strings.CutPrefix(schema.ID, home)
		if published, failed := os.ReadFile(filepath.Join(s.out, place)); err != nil || failed != nil || !ours || string(published) != string(text) {
			t.Errorf("%s is not at its $id, %s: %v, %v", file, schema.ID, err, failed)
		}
	}
	list, err := os.ReadFile(filepath.Join(s.out, "llms.txt"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`(?m)^- \[.*?\]\(`+home+`(\S+)\)`).FindAllStringSubmatch(string(list), -1)
	if len(named) != len(s.pages) {
		t.Errorf("llms.txt names %d pages of %d", len(named), len(s.pages))
	}
	for _, page := range named {
		if _, err := os.Stat(filepath.Join(s.out, page[1])); err != nil {
			t.Error(err)
		}
	}
}

// The search finds a heading, and leads to its anchor.
func TestIndexOfTheSearch(t *testing.T) {
	s := build(t)
	text, err := os.ReadFile(filepath.Join(s.out, "search-index.js"))
	if err != nil {
		t.Fatal(err)
	}
	var sections []section
	if err := json.Unmarshal([]byte(strings.TrimPrefix(string(text), "window.searchIndex = ")), &sections); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(sections, func(s section) bool {
		return s.Address == "docs/statistics.html#claims" && s.Heading == "Claims" && s.Text != ""
	}) {
		t.Errorf("none of %d sections is docs/statistics.html#claims", len(sections))
	}
}

// plant makes a small repository, with one document changed.
func plant(t *testing.T, name, text string) *site {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"README.md": "# Small\n\nSee [more](docs/load.md#part).\n", "docs/load.md": "# Load\n\n## Part\n", "docs/guides/README.md": "# Guides\n",
		"docs/decisions/README.md": "# Decisions\n", "rpc/README.md": "# rpc\n", "rpc/x/README.md": "# x\n", "examples/x/README.md": "# An example\n",
		"docs/schema/a.schema.json": "{}", "docs/statistics.md": "# Statistics\n\n## Claims\n",
	}
	files[name] = text
	for name, text := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &site{root: root, out: filepath.Join(root, "site")}
}

// A link that leads nowhere fails the build, and the message has its file and line.
func TestDeadLinksFail(t *testing.T) {
	if err := plant(t, "README.md", "# Small\n\nSee [more](docs/load.md#part) and [code](docs/schema/a.schema.json).\n").build(); err != nil {
		t.Errorf("with good links: %v", err)
	}
	for text, want := range map[string]string{
		"# A\n\nOne.\nSee [b](docs/gone.md).\n":       "README.md:4: docs/gone.md is no file of the site: link to a file of the repository, or to a page",
		"# A\n\n- one\n- [b](docs/load.md#gone)\n":    "README.md:4: docs/load.md has no heading or anchor #gone: correct the link",
		"# A\n\n![b](docs/gone.png)\n":                "README.md:3: docs/gone.png is no file of the site: link to a file of the repository, or to a page",
		"# A\n\n| a |\n| --- |\n| [b](#c) |\n":        "README.md:5: README.md has no heading or anchor #c: correct the link",
		"# A\n\nSee [the folder](docs/schema).\n":     "README.md:3: docs/schema is no file of the site: link to a file of the repository, or to a page",
		"# A\n\nSee [x][x].\n\n[x]: docs/load.md#no ": "README.md:3: docs/load.md has no heading or anchor #no: correct the link",
		"No title.\n": "README.md has no heading: give it a title",
	} {
		if err := plant(t, "README.md", text).build(); err == nil || err.Error() != want {
			t.Errorf("%q:\n%v, want\n%s", text, err, want)
		}
	}
}

// Folders without files are named.
func TestFoldersWithoutFiles(t *testing.T) {
	empty := t.TempDir()
	for want, s := range map[string]*site{
		" has no *.md: name another folder":                                                       {root: empty},
		" has no commands/*.md: name another folder":                                              {root: "../..", commands: empty},
		" has no RUN/report.html: run make gallery, or copy directories of finished runs into it": {root: "../..", gallery: empty},
	} {
		s.out = filepath.Join(t.TempDir(), "site")
		if err := s.build(); err == nil || !strings.Contains(err.Error(), empty+want) {
			t.Errorf("%v, want %s%s", err, empty, want)
		}
	}
}

// The gallery lists the reports of a folder by their titles, and has them as they are.
func TestGallery(t *testing.T) {
	s := plant(t, "runs/compare-1/report.html", "<title>echo, closed loop · wirelab</title>")
	s.gallery = filepath.Join(s.root, "runs")
	if err := os.WriteFile(filepath.Join(s.gallery, "compare-1", "manifest.json"), []byte(`{"command": ["wirelab", "compare", "-c", "1", "-o", "compare-1"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.build(); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(filepath.Join(s.out, "gallery", "README.md"))
	if err != nil || !strings.Contains(string(list), "- [echo, closed loop](compare-1/report.html): `wirelab compare -c 1`\n") {
		t.Errorf("%s%v", list, err)
	}
	if _, err := os.Stat(filepath.Join(s.out, "gallery", "compare-1", "report.html")); err != nil {
		t.Error(err)
	}
}

// A study's page has its results, or says that there are none, and leads to the reports of its
// replications in the gallery.
func TestStudyHasItsResults(t *testing.T) {
	s := plant(t, "studies/small.yaml", "name: small\ntitle: A small study\nquestion: How small?\nclaims:\n  - row: S1\n    says: one is less than two\n")
	page := func() string {
		t.Helper()
		if err := s.build(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(s.out, "studies", "small.html"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	want := func(page string, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(page, text) {
				t.Errorf("the study's page lacks %s:\n%s", text, page)
			}
		}
	}
	want(page(), "A small study", "How small?", "one is less than two", "Not measured here yet", "wirelab replicate small --quick")

	results := "# What was found\n\nMeasured on 1 May 2026. A machine.\n\n- 2 claims: 2 compatible.\n\n## A large study\n\n- of another\n\n## A small study (quick)\n\n- 1 claim: 1 compatible.\n\n| claim | here |\n| --- | ---: |\n| one is less than two | 0.5 |\n"
	for name, text := range map[string]string{"docs/results/claims.md": results, "runs/replicate/small/report.html": "<title>Small · wirelab</title>"} {
		file := filepath.Join(s.root, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	s.gallery = filepath.Join(s.root, "runs")
	measured := page()
	want(measured, "Measured on 1 May 2026. A machine.", "1 claim: 1 compatible.", ">0.5</td>", `href="../docs/results/claims.html"`, `href="../gallery/replicate/small/report.html"`)
	for _, other := range []string{"of another", "2 compatible", "Not measured"} {
		if strings.Contains(measured, other) {
			t.Errorf("the study's page has %q", other)
		}
	}
}
