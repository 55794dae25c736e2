package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// The generator is only in the tests, so that the program does not carry it. A release calls it by
// this flag.
var (
	manFolder = flag.String("man", "", "`folder` in which TestManPages makes man/*.1 and completion/*")
	// Lines of help that are set off are lines of code in Markdown, from which man pages are made too.
	exampleOfHelp  = regexp.MustCompile(`(?m)^  \S`)
	markdownFolder = flag.String("markdown", "", "`folder` for the same pages as Markdown")
)

// completions names the file of each shell's completion. Zsh finds a command by the name of its file.
var completions = map[string]string{"bash": "wirelab.bash", "zsh": "_wirelab", "fish": "wirelab.fish", "powershell": "wirelab.ps1"}

// TestManPages makes a man page of each command, and the completion of each shell.
func TestManPages(t *testing.T) {
	made := *manFolder
	if made == "" {
		made = t.TempDir()
	}
	folder := filepath.Join(made, "man")
	for _, folder := range []string{folder, filepath.Join(made, "completion")} {
		if err := os.Mkdir(folder, 0o755); err != nil { //nolint:gosec // of a release
			t.Fatal(err)
		}
	}
	for shell, name := range completions {
		var out, said strings.Builder
		if code := run([]string{"completion", shell}, strings.NewReader(""), &out, &said); code != exitDone || !strings.Contains(out.String(), "__complete") {
			t.Errorf("completion %s: exit code %d, and no call of wirelab for words: %s%s", shell, code, out.String(), said.String())
		}
		if err := os.WriteFile(filepath.Join(made, "completion", name), []byte(out.String()), 0o644); err != nil { //nolint:gosec // of a release
			t.Fatal(err)
		}
	}
	header := doc.GenManHeader{Section: "1", Source: "wirelab", Manual: "wirelab"}
	if os.Getenv("SOURCE_DATE_EPOCH") == "" { // package doc takes the date from this variable
		when := time.Unix(0, 0).UTC()
		header.Date = &when
	}
	root := new(app).root()
	var write func(*cobra.Command)
	write = func(cmd *cobra.Command) {
		cmd.Long = exampleOfHelp.ReplaceAllString(cmd.Long, "    $0")
		path := filepath.Join(folder, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1")
		var page strings.Builder
		own := header // package doc changes it
		if err := doc.GenMan(cmd, &own, &page); err != nil {
			t.Fatalf("%s: %v", cmd.CommandPath(), err)
		}
		for _, want := range []string{".SH NAME", ".SH SYNOPSIS", cmd.Short[:strings.IndexAny(cmd.Short+" ", " ")]} {
			if !strings.Contains(page.String(), want) {
				t.Errorf("the man page of %s lacks %q", cmd.CommandPath(), want)
			}
		}
		if cmd.Example != "" && !strings.Contains(page.String(), ".SH EXAMPLE") {
			t.Errorf("the man page of %s lacks the example", cmd.CommandPath())
		}
		if err := os.WriteFile(path, []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if *markdownFolder != "" {
			writeMarkdown(t, cmd)
		}
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				write(sub)
			}
		}
	}
	write(root)
	if pages, err := filepath.Glob(filepath.Join(folder, "wirelab*.1")); err != nil || len(pages) < 20 {
		t.Errorf("found %d man pages (%v), want one for each command", len(pages), err)
	}
}

// writeMarkdown writes the page of a command for the site (tools/site).
func writeMarkdown(t *testing.T, cmd *cobra.Command) {
	t.Helper()
	cmd.DisableAutoGenTag = true
	var page strings.Builder
	if err := doc.GenMarkdown(cmd, &page); err != nil {
		t.Fatalf("%s: %v", cmd.CommandPath(), err)
	}
	text := strings.NewReplacer("\n### ", "\n## ").Replace("\n" + strings.Replace(page.String(), "## ", "# ", 1)) // one level up
	file := filepath.Join(*markdownFolder, strings.ReplaceAll(cmd.CommandPath(), " ", "_")+".md")
	if err := os.WriteFile(file, []byte(text[1:]), 0o600); err != nil {
		t.Fatal(err)
	}
}
