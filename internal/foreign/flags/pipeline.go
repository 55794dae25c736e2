package flags

import (
	"fmt"
	"strings"

	"wirelab.dev/internal/base/secret"
)

// An Input holds the text or the file that a pipeline gives to a command.
type Input struct {
	File string // a file with the input; empty means Text
	Text string
}

// inputOf returns the input that the commands before a tool's command would give, which are not run.
func inputOf(before []pipedCommand, own pipedCommand) (*Input, error) {
	switch {
	case own.from != "":
		return &Input{File: own.from}, nil
	case len(before) == 0:
		return nil, nil
	}
	first := before[len(before)-1]
	name, words := program(first.words[0]), first.words[1:]
	escapes, line := name == "printf", "\n"
	for name == "echo" && len(words) > 0 && len(words[0]) > 1 && strings.Trim(words[0], "neE") == "-" {
		escapes, words = strings.Contains(words[0], "e"), words[1:]
	}
	text := strings.Join(words, " ")
	switch {
	case len(before) > 1 || first.from != "":
	case name == "cat" && len(words) == 1:
		return &Input{File: words[0]}, nil
	case name == "echo", name == "printf" && len(words) == 1 && !strings.Contains(text, "%"):
		if name == "printf" {
			line = ""
		}
		if escapes {
			text = strings.NewReplacer(`\n`, "\n", `\r`, "", `\t`, "\t", `\\`, `\`).Replace(text)
		}
		return &Input{Text: text + line}, nil
	}
	return nil, fmt.Errorf("%s is not run: write its output into a file, and name the file", Excerpt(strings.Join(first.words, " ")))
}

// keepNames is an environment in which each variable has its own name as its value.
func keepNames(name string) (value string, isSet bool) { return "$" + name, true }

// HideSecrets returns a command, or a pipeline, without secrets for printing. A text that cannot be split
// is hidden as a whole.
func HideSecrets(text string) string {
	commands, err := pipeline(text, keepNames)
	if err != nil {
		return secret.Hidden
	}
	if len(commands) == 1 && len(commands[0].words) < 2 {
		return text
	}
	var shown []string
	for _, c := range commands {
		words := []string{}
		for _, word := range secret.HideInArguments(c.words) {
			if strings.Contains(word, `\n`) || strings.Contains(word, "\n") { // lines may be header fields
				word = secret.Hidden
			}
			words = append(words, Quote(word))
		}
		if c.from != "" {
			words = append(words, "<", Quote(c.from))
		}
		if c.to != "" {
			words = append(words, ">", Quote(c.to))
		}
		shown = append(shown, strings.Join(words, " "))
	}
	return strings.Join(shown, " | ")
}
