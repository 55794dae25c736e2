// Command site makes a static site from the repository's documents: a page for each Markdown file,
// the plain Markdown beside it, the JSON schemas at the addresses that their $id names, llms.txt,
// and an index for a search without a server.
//
//	documents, studies, commands, reports ──> pages ──> links checked ──> files
//
// A link that leads nowhere fails the build. It needs no network; the pages ask for nothing that
// is not in the site.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	var s site
	flag.StringVar(&s.root, "root", ".", "`folder` of the repository")
	flag.StringVar(&s.out, "out", "site", "`folder` of the site; its files are replaced")
	flag.StringVar(&s.commands, "commands", "", "`folder` of the commands' Markdown, which TestManPages of cmd/wirelab makes")
	flag.StringVar(&s.gallery, "gallery", "", "`folder` of finished runs: their pages are shown")
	flag.StringVar(&s.Version, "version", "unknown", "`commit` that the pages name")
	flag.Parse()
	if err := s.build(); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stdout, "%s: %d pages; no link leads nowhere\n", s.out, len(s.pages))
}
