package main

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// A command stands in a block of code, indented or fenced, or between backticks. A line with a
	// full stop is a sentence.
	lineOfPage = regexp.MustCompile("(?m)^(?:    |\\$ )?(?:go run \\./cmd/)?(wirelab [a-z].*[^.\n])$|`(wirelab [^`]+)`")
	// Behind these the line belongs to the shell or to the reader.
	restOfLine = regexp.MustCompile(`( [#|&>]| &&).*$`)
)

// Whoever copies a command from a page meets no flag that is not there.
func TestCommandLinesOfPagesAreUnderstood(t *testing.T) {
	for pattern, least := range map[string]int{
		"README.md": 8, "*.md": 9, "docs/commands.md": 45, "docs/guides/*.md": 6, "docs/load.md": 25, "docs/load-streams.md": 4,
		"docs/*.md": 150, "docs/decisions/*.md": 10, "rpc/*.md": 0, "rpc/*/*.md": 0, "examples/*/*.md": 0,
	} {
		pages, err := filepath.Glob("../../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range lineOfPage.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\\\n", ""), -1) {
				command := restOfLine.ReplaceAllString(strings.TrimPrefix(match[1]+match[2], "wirelab "), "")
				var line []string
				for _, w := range word.FindAllString(command, -1) {
					if w != "…" {
						line = append(line, strings.NewReplacer(`'`, "", `"`, "").Replace(w))
					}
				}
				found++
				if match[2] != "" && named(line) {
					continue
				}
				if err := understood(line); err != nil {
					t.Errorf("%s: wirelab %s: %v", filepath.Base(page), command, err)
				}
			}
		}
		if found < least {
			t.Errorf("%d command lines in %s, want %d at least", found, pattern, least)
		}
	}
}

// named says whether a sentence only names a command and flags: it leaves out their values.
func named(line []string) bool {
	cmd, flags, err := (&app{}).root().Find(line)
	return err == nil && cmd.HasParent() && !slices.ContainsFunc(flags, func(flag string) bool {
		return cmd.Flag(strings.TrimPrefix(flag, "--")) == nil
	})
}

// The README's picture of a terminal shows the words that the program prints today.
func TestPictureOfTheTerminalIsOfToday(t *testing.T) {
	picture, err := os.ReadFile("../../docs/terminal.svg")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{} // the texts of each line, by its place
	for _, text := range regexp.MustCompile(`y="(\d+)"[^>]*>([^<]*)</text>`).FindAllStringSubmatch(string(picture), -1) {
		shown[text[1]] += html.UnescapeString(text[2])
	}
	var head []string
	labels := map[string]bool{}
	for _, line := range shown {
		if strings.HasPrefix(line, "stack ") {
			head = strings.Fields(line)
		}
		if label, _, has := strings.Cut(line, ": "); has && !strings.Contains(label, " ") && label != "…" { // a note of cut lines
			labels[label] = true
		}
	}
	var today []string // the texts that tests hold to the program
	for _, pattern := range []string{"../../internal/show/report/testdata/table-*.txt", "../../internal/judge/advice/testdata/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			today = append(today, strings.Fields(string(text))...)
		}
	}
	for _, column := range head {
		if !slices.Contains(today, column) {
			t.Errorf("docs/terminal.svg has a column %q, which no table has: run make pictures", column)
		}
	}
	if len(head) < 6 {
		t.Errorf("docs/terminal.svg has no head of columns: %q", head)
	}
	for _, label := range []string{"Do", "Trust", "Report", "c"} {
		if !labels[label] {
			t.Errorf("docs/terminal.svg has no line %q: run make pictures", label+": …")
		}
	}
	for label := range labels {
		if label != "Report" && !slices.Contains(today, label+":") {
			t.Errorf("docs/terminal.svg has a line %q, which no answer has: run make pictures", label+": …")
		}
	}
}
