package main

import (
	"slices"
	"strings"

	"wirelab.dev/internal/base/secret"
	"wirelab.dev/internal/foreign"
	"wirelab.dev/internal/foreign/flags"
)

// withoutSecrets returns a command line as a run may keep it, and show to whoever reads its
// report. The command behind --from is a line of its own.
func withoutSecrets(args []string) []string {
	if _, from, err := splitFrom(args); err != nil || from == nil {
		return secret.HideIn(args)
	}
	at := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--from") })
	if args[at] == "--from" {
		at++
	}
	if slices.Contains(foreign.Commands.Names(), strings.TrimPrefix(args[at], "--from=")) {
		at++
	}
	kept := secret.HideIn(args)
	flag, command := "", args[at]
	if value, joined := strings.CutPrefix(command, "--from="); joined {
		flag, command = "--from=", value
	}
	if words, err := flags.Split(command); err != nil {
		command = secret.Hidden
	} else if len(words) > 1 {
		command = quoted(secret.HideIn(words))
	}
	kept[at] = flag + command
	return kept
}
