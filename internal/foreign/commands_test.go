package foreign

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/foreign/flags"
)

var update = flag.Bool("update", false, "write what the commands in testdata become")

// published is a command as its tool's documentation has it.
type published struct {
	head, command string // what stands above it, and it
	becomes       []string
}

// toolOf returns the tool of a file, by its folder.
func toolOf(file string) string { return filepath.Dir(filepath.Dir(file)) }

// readPublished reads a testdata/commands.txt: records that an empty line parts.
func readPublished(t *testing.T, file string) (preamble string, commands []published) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for record := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n\n") {
		head, rest, is := strings.Cut(record, "\n$ ")
		if !is {
			preamble = record + "\n\n"
			continue
		}
		p := published{head: head}
		for line := range strings.SplitSeq(rest, "\n") {
			if len(line) > 1 && strings.ContainsRune("=~!-", rune(line[0])) && line[1] == ' ' {
				p.becomes = append(p.becomes, line)
				continue
			}
			p.command += line + "\n"
		}
		commands = append(commands, p)
	}
	return preamble, commands
}

// become returns what the file must say about a command: pasted, and typed behind wirelab load.
func (p published) become(tool string) []string {
	lines := outcome("=", func() ([]string, []string, error) { return Commands.TranslateText(tool, p.command, nil) })
	if words, err := flags.Split(p.command, nil); err == nil && tool != "ab" { // whose flags are read only behind its name
		lines = append(lines, outcome("~", func() ([]string, []string, error) { return Commands.TranslateArguments(words[1:]) })...)
	}
	return lines
}

func outcome(mark string, translate func() ([]string, []string, error)) []string {
	arguments, told, err := translate()
	if err != nil {
		return []string{"! " + mark + " " + err.Error()}
	}
	words := []string{mark}
	for _, argument := range arguments {
		words = append(words, flags.Quote(argument))
	}
	lines := []string{strings.Join(words, " ")}
	for _, line := range told {
		lines = append(lines, "- "+line)
	}
	return lines
}

func TestPublishedCommands(t *testing.T) {
	files, err := filepath.Glob("*/testdata/commands.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range files {
		tool := toolOf(file)
		written, commands := readPublished(t, file)
		for _, p := range commands {
			got := p.become(tool)
			if !*update && strings.Join(got, "\n") != strings.Join(p.becomes, "\n") {
				t.Errorf("%s: %s\ngot:\n%s\nwant:\n%s", file, p.command, strings.Join(got, "\n"), strings.Join(p.becomes, "\n"))
			}
			written += p.head + "\n$ " + p.command + strings.Join(got, "\n") + "\n\n"
		}
		if *update {
			if err := os.WriteFile(file, []byte(strings.TrimSpace(written)+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Of the published commands that are one command without what a shell computes, 25 of 30
// translate.
func TestMostPublishedCommandsTranslate(t *testing.T) {
	files, err := filepath.Glob("*/testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	commands, translated := 0, 0
	for _, file := range files {
		_, published := readPublished(t, file)
		for _, p := range published {
			if _, err := flags.Split(p.command, nil); err != nil {
				continue
			}
			commands++
			if _, _, err := Commands.TranslateText(toolOf(file), p.command, nil); err == nil {
				translated++
			}
		}
	}
	if t.Logf("%d of %d", translated, commands); commands < 60 || translated*30 < commands*25 {
		t.Errorf("%d of %d published commands translate, want 25 of 30", translated, commands)
	}
}

// A whole command typed behind wirelab load means what it means pasted, and may have wirelab's own
// flags beside its tool's.
func TestWholeCommands(t *testing.T) {
	files, err := filepath.Glob("*/testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		_, published := readPublished(t, file)
		for _, p := range published {
			words, err := flags.Split(p.command, nil)
			pasted, _, wrong := Commands.TranslateText(toolOf(file), p.command, nil)
			if err != nil || wrong != nil || filepath.Base(words[0]) != toolOf(file) {
				continue
			}
			if typed, _, err := Commands.TranslateArguments(words); err != nil || !slices.Equal(typed, pasted) {
				t.Errorf("%s: typed %q, %v; pasted %q", p.command, typed, err, pasted)
			}
		}
	}
	for typed, want := range map[string]string{
		"curl -X POST -d x http://a/ --rps 5 --fail-if errors>0": "-m POST --rps 5 --fail-if errors>0 -d x -T application/x-www-form-urlencoded http://a/",
		"curl -s -o out.html http://a/":                          "http://a/",
		"curl -s http://a/ -n 5 -c 1":                            "-n 5 -c 1 http://a/",
		"ab -n 5 http://a/ --json":                               "-n 5 --json -c 1 --conn new http://a/",
		"hey.exe -n 5 http://a/":                                 "-n 5 -c 50 --conn per-worker http://a/",
	} {
		got, _, err := Commands.TranslateArguments(strings.Fields(typed))
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v; want %s", typed, got, err, want)
		}
	}
	for typed, want := range map[string]string{
		"siege attack -rate 5":              "commands of siege are not read: want one of ghz",
		"locust -f l.py http://a/":          "commands of locust are not read: want one of ghz",
		"curl --form-string a=@b http://a/": "the value would name a file",
		"ab -Q http://a/":                   "ab: -Q: wirelab does not know this flag",
	} {
		if got, _, err := Commands.TranslateArguments(strings.Fields(typed)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want %q", typed, got, err, want)
		}
	}
}

// What is written for a pasted command is wirelab's own: typed, it stays as it is.
func TestPastedBecomesOwn(t *testing.T) {
	files, err := filepath.Glob("*/testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		_, published := readPublished(t, file)
		for _, p := range published {
			arguments, _, err := Commands.TranslateText(toolOf(file), p.command, nil)
			if err != nil {
				continue
			}
			again, told, err := Commands.TranslateArguments(arguments)
			if err != nil || len(told) > 0 || !slices.Equal(arguments, again) {
				t.Errorf("%s becomes %q, and typed %q, told %q, %v", p.command, arguments, again, told, err)
			}
		}
	}
}
