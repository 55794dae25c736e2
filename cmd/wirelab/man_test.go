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
	manFolder = flag.String("man", "", "`folder` for the man pages that TestManPages makes")
	// Lines of help that are set off are lines of code in Markdown, from which man pages are made too.
	exampleOfHelp  = regexp.MustCompile(`(?m)^  \S`)
	markdownFolder = flag.String("markdown", "", "`folder` for the same pages as Markdown")
)

// TestManPages makes a man page of each command.
func TestManPages(t *testing.T) {
	folder := *manFolder
	if folder == "" {
		folder = t.TempDir()
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
