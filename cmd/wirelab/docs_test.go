package main

import (
	"html"
	"os"
	"os/exec"
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

// A commandOfPage is a command that a page shows.
type commandOfPage struct {
	page, text string
	line       []string
	inSentence bool
}

// commandsOf returns the commands of the pages with a name like this.
func commandsOf(t *testing.T, pattern string) (commands []commandOfPage) {
	t.Helper()
	pages, err := filepath.Glob("../../" + pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range lineOfPage.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\\\n", ""), -1) {
			command := commandOfPage{filepath.Base(page), restOfLine.ReplaceAllString(strings.TrimPrefix(match[1]+match[2], "wirelab "), ""), nil, match[2] != ""}
			for _, w := range word.FindAllString(command.text, -1) {
				if w != "…" {
					command.line = append(command.line, strings.NewReplacer(`'`, "", `"`, "").Replace(w))
				}
			}
			commands = append(commands, command)
		}
	}
	return commands
}

// Whoever copies a command from a page meets no flag that is not there.
func TestCommandLinesOfPagesAreUnderstood(t *testing.T) {
	for pattern, least := range map[string]int{
		"README.md": 8, "*.md": 9, "docs/commands.md": 45, "docs/guides/*.md": 6, "docs/load.md": 25, "docs/load-streams.md": 4,
		"docs/*.md": 150, "docs/decisions/*.md": 10, "rpc/*.md": 0, "rpc/*/*.md": 0, "examples/*/*.md": 0,
	} {
		commands := commandsOf(t, pattern)
		for _, c := range commands {
			if c.inSentence && named(c.line) {
				continue
			}
			if err := understood(c.line); err != nil {
				t.Errorf("%s: wirelab %s: %v", c.page, c.text, err)
			}
		}
		if len(commands) < least {
			t.Errorf("%d command lines in %s, want %d at least", len(commands), pattern, least)
		}
	}
}

var (
	// These commands only print, or read a run. The kept run has no probes, so that explain is left to the scripts.
	readingCommand = regexp.MustCompile(`^(version|list|doctor|init|completion bash|peers list|fleet permissions .*|(report|export|diff|advise) .+)( --json)?$`)
	// These measure: it is planned what they would measure.
	measuringCommand = regexp.MustCompile(`^(compare|run)( |$)`)
	// These need what is not here: other machines, files, other programs, a run with a cell of that name, or a flag
	// that the sentence leaves out.
	needsMore = regexp.MustCompile(`--(try|levers|fleet|proto|target|yardstick|resume|baseline|cells|after-cell|categories)\b|…|\.\.\.|(server|peer)=|NAME|STUDY|FILE|rivals|^export \w+$`)
)

// TestCommandsOfPagesRun runs the commands of the pages that read, and plans those that measure. The runs that
// pages name are copies of a kept run. TestJobs runs the commands of docs/load-jobs.md.
func TestCommandsOfPagesRun(t *testing.T) {
	if testing.Short() {
		t.Skip("short: each command is a process")
	}
	folder := t.TempDir()
	for _, run := range []string{"results", "run", "RUN", "DIR", "before", "after", "BEFORE", "AFTER"} {
		if err := os.CopyFS(filepath.Join(folder, run), os.DirFS("testdata/kept")); err != nil {
			t.Fatal(err)
		}
	}
	ran := map[string]bool{}
	for _, c := range slices.Concat(commandsOf(t, "*.md"), commandsOf(t, "docs/*.md"), commandsOf(t, "docs/guides/*.md")) {
		line := slices.Clone(c.line)
		if measuringCommand.MatchString(c.text) {
			line = append(line, "--dry-run", "-o", "planned")
		} else if !readingCommand.MatchString(strings.TrimSpace(c.text)) {
			continue
		}
		what := strings.Join(line, " ")
		if needsMore.MatchString(c.text) || c.inSentence && understood(c.line) != nil || ran[what] {
			continue
		}
		ran[what] = true
		command := exec.Command("wirelab", line...)
		command.Dir, command.Env = folder, append(os.Environ(), "HOME="+folder)
		if said, err := command.CombinedOutput(); err != nil {
			t.Errorf("%s: wirelab %s: %v\n%s", c.page, c.text, err, said)
		}
	}
	if len(ran) < 30 {
		t.Errorf("%d commands of the pages were run, want 30 at least", len(ran))
	}
	t.Logf("%d commands of the pages were run", len(ran))
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
