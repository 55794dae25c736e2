// Command pictures makes the README's two pictures from one real run of `wirelab compare`: what a
// terminal shows at its end, as SVG, and the first screen of the run's page, as PNG.
//
//	pictures -wirelab bin/wirelab -docs docs -- compare -c 1,50
//
// It needs `script` (util-linux) for a terminal, and Chromium for the page.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	program := flag.String("wirelab", "bin/wirelab", "the `program` to run")
	docs := flag.String("docs", "docs", "the `folder` of terminal.svg and report.png")
	columns := flag.Int("columns", 92, "width of the terminal")
	flag.Parse()
	if err := draw(*program, *docs, *columns, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func draw(program, docs string, columns int, args []string) error {
	if len(args) == 0 || args[0] != "compare" {
		return errors.New("name the command to draw, as in: pictures -- compare -c 1,50")
	}
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "pictures-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()

	line := strings.Join(args, " ")
	run := exec.Command("script", "-qefc", fmt.Sprintf("stty cols %d rows 50; '%s' %s -o results", columns, program, line), "typescript")
	run.Dir, run.Stdin, run.Stdout, run.Stderr = folder, os.Stdin, os.Stdout, os.Stderr
	run.Env = append(os.Environ(), "LANG=C.UTF-8", "NO_COLOR=")
	if err := run.Run(); err != nil {
		return fmt.Errorf("run wirelab %s in a terminal: %w", line, err)
	}
	typescript, err := os.ReadFile(filepath.Join(folder, "typescript"))
	if err != nil {
		return err
	}
	shown := screen("\x1b[2m$ \x1b[0m\x1b[1mwirelab " + line + "\x1b[0m\r\n" + body(string(typescript)))
	if err := os.WriteFile(filepath.Join(docs, "terminal.svg"), []byte(svg(shown, columns)), 0o644); err != nil {
		return err
	}
	page := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1200,800",
		"--virtual-time-budget=5000", "--screenshot="+filepath.Join(folder, "report.png"), "file://"+filepath.Join(folder, "results", "report.html"))
	if said, err := page.CombinedOutput(); err != nil {
		return fmt.Errorf("draw the page with chromium: %w\n%s", err, said)
	}
	picture, err := os.ReadFile(filepath.Join(folder, "report.png"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(docs, "report.png"), picture, 0o644)
}

// body returns what the program wrote last: without the lines of script, and without the progress
// that the program has erased.
func body(typescript string) string {
	if _, rest, has := strings.Cut(typescript, "\n"); has && strings.HasPrefix(typescript, "Script started") {
		typescript = rest
	}
	if end := strings.LastIndex(typescript, "\nScript done"); end >= 0 {
		typescript = typescript[:end]
	}
	if erased := strings.LastIndex(typescript, "\x1b[J"); erased >= 0 {
		typescript = typescript[erased+len("\x1b[J"):]
	}
	return strings.TrimRight(typescript, "\r\n ")
}
