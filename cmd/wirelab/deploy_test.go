package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"wirelab.dev/internal/foreign"
)

// Whoever starts wirelab from the files of deploy, or as their comments and docs/fleet.md say,
// meets no flag that is not there.
func TestDeployedCommandLinesAreUnderstood(t *testing.T) {
	for _, source := range []struct {
		files string // a pattern, below deploy
		find  func(t *testing.T, path, text string) [][]string
		least int // command lines, so that none is overlooked
	}{
		{"*.yaml", linesOfYAML, 5},
		{"kubernetes/*.yaml", linesOfYAML, 5},
		{"three-hubs/*.yaml", linesOfYAML, 1},
		{"systemd/*.service", linesOfUnit, 3},
		{"*.yaml", linesOfText, 2},
		{"kubernetes/*.yaml", linesOfText, 2},
		{"three-hubs/*.yaml", linesOfText, 2},
		{"systemd/*", linesOfText, 2},
		{"../docs/fleet.md", linesOfText, 12},
	} {
		paths, err := filepath.Glob(filepath.Join("../../deploy", source.files))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range source.find(t, path, string(text)) {
				found++
				if err := understood(line); err != nil {
					t.Errorf("%s: wirelab %s: %v", filepath.Base(path), strings.Join(line, " "), err)
				}
			}
		}
		if found < source.least {
			t.Errorf("%d command lines in %s, want %d at least", found, source.files, source.least)
		}
	}
}

func TestWrongCommandLinesAreNotUnderstood(t *testing.T) {
	for line, want := range map[string]string{
		"comparison --json":         "no such command",
		"compare --jason":           "--jason",
		"compare -c many":           "many",
		"compare tcp":               "tcp",
		"serve --workload echo":     "stack", // which it must be told
		"peers checks x":            "no such command",
		"compare -z 1s --fleets me": "--fleets",
	} {
		if err := understood(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("wirelab %s: %v; want a complaint with %q", line, err, want)
		}
	}
	if err := understood(strings.Fields("compare --stack tcp,grpc -c 16 --json -o results")); err != nil {
		t.Errorf("a right command line: %v", err)
	}
}

// understood parses a command line as the program does, and does not run it.
func understood(line []string) error {
	if line[0] == "load" && indexOfFrom(line[1:]) < 0 { // flags of other tools are read too
		taken, _, err := foreign.Commands.TranslateArguments(line[1:])
		if err != nil {
			return err
		}
		line = append([]string{"load"}, taken...)
	}
	root := (&app{stdout: io.Discard, stderr: io.Discard}).root()
	cmd, rest, err := root.Find(line)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil && cmd != root {
		return err
	}
	if cmd == root || cmd.HasSubCommands() && cmd.Flags().NArg() > 0 {
		return errors.New("no such command")
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// linesOfYAML are the lists behind args and command, wherever they stand.
func linesOfYAML(t *testing.T, path, text string) [][]string {
	t.Helper()
	var lines [][]string
	var walk func(node any)
	walk = func(node any) {
		switch node := node.(type) {
		case map[string]any:
			for key, value := range node {
				list, isList := value.([]any)
				if isList && (key == "args" || key == "command") {
					var line []string
					for _, word := range list {
						line = append(line, fmt.Sprint(word))
					}
					lines = append(lines, line)
					continue
				}
				walk(value)
			}
		case []any:
			for _, value := range node {
				walk(value)
			}
		}
	}
	documents := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	for {
		var document any
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		walk(document)
	}
}

// linesOfUnit is a unit's command, once with each example of its environment.
func linesOfUnit(t *testing.T, path, text string) [][]string {
	t.Helper()
	command := regexp.MustCompile(`(?m)^ExecStart=\S*/wirelab (.+)$`).FindStringSubmatch(text)
	if command == nil {
		t.Fatalf("%s starts nothing", path)
	}
	examples := []string{"hub.env"}
	if strings.Contains(path, "agent") {
		examples = []string{"agent.env", "server.env"}
	}
	var lines [][]string
	for _, example := range examples {
		file, err := os.ReadFile(filepath.Join(filepath.Dir(path), example))
		if err != nil {
			t.Fatal(err)
		}
		expanded := os.Expand(command[1], func(name string) string {
			value := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(string(file))
			if value == nil {
				t.Fatalf("%s has no %s", example, name)
			}
			return value[1]
		})
		lines = append(lines, strings.Fields(expanded))
	}
	return lines
}

var (
	// In a comment, code is set off by three spaces; on a page, it is a line of a block, or
	// between backticks.
	codeOfComment = regexp.MustCompile(`(?m)^#   .*$`)
	codeOfPage    = regexp.MustCompile("(?m)^wirelab .*$|`wirelab [^`]+`")
	// The command ends at what is the shell's. Behind -n it is the name of a namespace.
	called = regexp.MustCompile("(?:^|[ (`])wirelab ([a-z][^>|)`]*)")
	word   = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"]+)+`)
)

// linesOfText are the commands that a comment or a page has for people.
func linesOfText(_ *testing.T, path, text string) [][]string {
	code := codeOfComment
	if filepath.Ext(path) == ".md" {
		code = codeOfPage
	}
	var lines [][]string
	for _, piece := range code.FindAllString(text, -1) {
		match := called.FindStringSubmatch(strings.ReplaceAll(piece, "-n wirelab", ""))
		if match == nil {
			continue
		}
		var line []string
		for _, w := range word.FindAllString(match[1], -1) {
			line = append(line, strings.NewReplacer(`'`, "", `"`, "").Replace(w))
		}
		lines = append(lines, line)
	}
	return lines
}
