// Command words finds phrases that have to be read twice: riddles, genitives without a
// noun, and a few others that a program can recognise. CONTRIBUTING.md shows what to write
// instead.
//
//	words [-root folder]
//
// It reads all text that people have written and that git tracks: Go, Markdown, YAML,
// scripts, the report page's source. It skips only quotations: the rows of a Markdown table
// with the columns Before and After.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	root := flag.String("root", ".", "`folder` of the repository")
	flag.Parse()
	found, err := checkRepository(*root, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(1)
	}
	if found > 0 {
		fmt.Fprintf(os.Stderr, "words: %d phrases must be read twice; CONTRIBUTING.md shows what to write instead\n", found)
		os.Exit(1)
	}
}

// A rule holds a phrase and its replacement.
type rule struct {
	phrase  *regexp.Regexp
	instead string
}

var rules = []rule{
	{regexp.MustCompile(`^\s*(//|#|\*) [A-Za-z_][\w.]* (is|are|was|were|has) (what|who|why|how|where|that of|those of|of)\b`), `begin with the name and a verb: "A Foo holds …", "Foo returns …"`},
	{regexp.MustCompile(`(?i)\bof (which|whom)\b`), `name the noun again, or write "whose"`},
	{regexp.MustCompile(`(?i)\bso many\b`), `write a number, N, or "this many"`},
	{regexp.MustCompile(`(?i)\bnot told\b|\b(is|are) told[.,;:]`), `write "not measured", "unknown", or who says it`},
	{regexp.MustCompile(`(?i)\b(requests|calls|bytes|times|packets|connections|lines|files|messages|events|trials|points) an? (second|minute|trial|call|request|connection|cell|package|line|machine|point)\b`), `write "per" in rates`},
}

// textFiles matches the names of files that hold sentences.
var textFiles = regexp.MustCompile(`(\.(go|md|ya?ml|ts|tsx|css|sh|py|rs|c|h|cc|cpp|java|proto|txtar)|(^|/)Makefile)$`)

// generatedFiles matches files that programs write.
var generatedFiles = regexp.MustCompile(`\.pb\.go$|_vtproto\.pb\.go$|(^|/)testdata/.*\.(go|md|ya?ml)$|^web/dist/|^tools/words/`)

// generatedHeader matches the first line of Go's generated files and of the page's types.
var generatedHeader = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// checkRepository prints every place with a phrase, and returns their number.
func checkRepository(root string, out io.Writer) (int, error) {
	list := exec.Command("git", "-C", root, "ls-files", "-z")
	names, err := list.Output()
	if err != nil {
		return 0, fmt.Errorf("list the files of %s: %w", root, err)
	}
	found := 0
	for _, name := range strings.Split(strings.TrimRight(string(names), "\x00"), "\x00") {
		if !textFiles.MatchString(path.Clean(name)) || generatedFiles.MatchString(name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			return found, err
		}
		if !generatedHeader.Match(text) {
			found += checkText(name, text, out)
		}
	}
	return found, nil
}

func checkText(name string, text []byte, out io.Writer) int {
	found, quotes := 0, false
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for number := 1; lines.Scan(); number++ {
		quotes = strings.HasPrefix(lines.Text(), "| Before | After |") || quotes && strings.HasPrefix(lines.Text(), "|")
		if quotes && strings.HasSuffix(name, ".md") {
			continue
		}
		for _, r := range rules {
			for _, phrase := range r.phrase.FindAllString(lines.Text(), -1) {
				found++
				_, _ = fmt.Fprintf(out, "%s:%d: %q: %s\n", name, number, strings.TrimSpace(phrase), r.instead)
			}
		}
	}
	return found
}
