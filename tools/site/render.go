package main

import (
	"bytes"
	"fmt"
	htmltext "html"
	"html/template"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// A page is one Markdown document and what becomes of it.
type page struct {
	Source, Address, Title, Summary string // Source is the path in the repository, Address that in the site
	Body                            template.HTML
	sections                        []section
	text                            []byte
	anchors                         map[string]bool
	links                           []link
}

// A section is the text below one heading, for the search.
type section struct{ Address, Page, Heading, Text string }

// A link leads from a line of a page to a file of the repository.
type link struct {
	line           int
	path, fragment string
}

var (
	markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(html.WithUnsafe())) // the documents are our own, and have <a id> and <br>
	anchor    = regexp.MustCompile(`\bid="([^"]+)"`)
	heading   = regexp.MustCompile(`(?s)<h[1-6] id="([^"]+)">(.*?)</h[1-6]>`)
	paragraph = regexp.MustCompile(`(?s)<p>(.*?)</p>`)
	tag       = regexp.MustCompile(`<[^>]*>`)
	inWord    = regexp.MustCompile(`</?(?:a|code|em|strong)\b[^>]*>`) // leaves no space
	// Wide tables and code scroll in their own box, also by keyboard.
	boxes = strings.NewReplacer("<table>", `<div class="scroll" role="group" aria-label="Table" tabindex="0"><table>`,
		"</table>", "</table></div>", "<pre>", `<pre tabindex="0">`, "<th></th>", "<td></td>") // an empty heading names no column
)

// render makes the page's body, and collects its links, anchors and sections.
func (s *site) render(p *page) error {
	document := markdown.Parser().Parse(text.NewReader(p.text))
	err := ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if l, is := n.(*ast.Link); is && entering {
			l.Destination = s.lead(p, n, l.Destination)
		} else if i, is := n.(*ast.Image); is && entering {
			i.Destination = s.lead(p, n, i.Destination)
		}
		return ast.WalkContinue, nil
	})
	var rendered bytes.Buffer
	if err == nil {
		err = markdown.Renderer().Render(&rendered, p.text, document)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.Source, err)
	}
	body := rendered.String()
	p.Body = template.HTML(boxes.Replace(body)) //nolint:gosec // our own documents
	p.anchors = map[string]bool{"": true}
	for _, id := range anchor.FindAllStringSubmatch(body, -1) {
		p.anchors[id[1]] = true
	}
	headings := heading.FindAllStringSubmatchIndex(body, -1)
	if len(headings) == 0 {
		return fmt.Errorf("%s has no heading: give it a title", p.Source)
	}
	p.Title = plain(body[headings[0][4]:headings[0][5]])
	if first := paragraph.FindStringSubmatch(body); first != nil {
		p.Summary = plain(first[1])
	}
	for i, h := range headings {
		end := append(headings, []int{len(body)})[i+1][0] // where the next one begins
		p.sections = append(p.sections, section{p.Address + "#" + body[h[2]:h[3]], p.Title, plain(body[h[4]:h[5]]), plain(body[h[1]:end])})
	}
	return nil
}

// plain returns the words of HTML in one line.
func plain(body string) string {
	return strings.Join(strings.Fields(htmltext.UnescapeString(tag.ReplaceAllString(inWord.ReplaceAllString(body, ""), " "))), " ")
}

// lead notes a link for the check, and returns its destination in the site.
func (s *site) lead(p *page, n ast.Node, destination []byte) []byte {
	target, err := url.Parse(string(destination))
	if err != nil || target.IsAbs() || target.Host != "" {
		return destination
	}
	to := link{line: 1 + bytes.Count(p.text[:max(n.Pos(), 0)], []byte("\n")), path: p.Source, fragment: target.Fragment}
	if target.Path != "" {
		to.path = path.Join(path.Dir(p.Source), target.Path)
	}
	if readme := path.Join(to.path, "README.md"); s.pages[readme] != nil {
		to.path = readme
	}
	p.links = append(p.links, to)
	return []byte((&url.URL{Path: p.Up() + address(to.path), Fragment: to.fragment}).String())
}

// Up returns the way from the page to the site's root.
func (p *page) Up() string { return strings.Repeat("../", strings.Count(p.Address, "/")) }

// address returns the place in the site for a file of the repository.
func address(source string) string {
	name, ending := strings.TrimSuffix(source, path.Ext(source)), path.Ext(source)
	switch {
	case path.Base(source) == "README.md":
		return path.Join(path.Dir(source), "index.html")
	case ending == ".md":
		return name + ".html"
	case strings.Contains(".csv .html .json .png .svg .yaml", ending) && ending != "":
		return strings.Replace(source, "docs/schema/", "schema/", 1)
	}
	return source + ".txt" // a browser shows it, and no Go tool takes the site for source code
}
