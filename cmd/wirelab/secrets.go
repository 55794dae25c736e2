package main

import (
	"net/url"
	"slices"
	"strings"

	"wirelab.dev/internal/foreign/flags"
)

// secretFlags have values that no run keeps.
var secretFlags = []string{"--bearer", "--user", "-u", "-a"}

// headerFlags have values of which some are secret, by the field's name.
var headerFlags = []string{"--header", "-H"}

// notKept stands for a secret.
const notKept = "…"

// withoutSecrets is a command line as a run may keep it, and show to whoever reads its report:
// without passwords, tokens and cookies, as far as flags and fields are known to hold them.
func withoutSecrets(args []string) []string {
	kept := slices.Clone(args)
	if _, from, err := splitFrom(args); err == nil && from != nil {
		return withoutForeignSecrets(kept)
	}
	before := ""
	for i, arg := range kept {
		flag, value, joined := strings.Cut(arg, "=")
		switch {
		case slices.Contains(secretFlags, before):
			kept[i] = notKept
		case slices.Contains(headerFlags, before):
			kept[i] = withoutSecretField(arg)
		case joined && slices.Contains(secretFlags, flag):
			kept[i] = flag + "=" + notKept
		case joined && slices.Contains(headerFlags, flag):
			kept[i] = flag + "=" + withoutSecretField(value)
		case strings.HasPrefix(arg, "-H") && len(arg) > len("-H"):
			kept[i] = "-H" + withoutSecretField(strings.TrimPrefix(arg, "-H"))
		case strings.Contains(arg, "://") && strings.Contains(arg, "@"):
			kept[i] = withoutPassword(arg)
		}
		before = arg
	}
	return kept
}

// withoutForeignSecrets is a line with --from, whose command is a line of its own.
func withoutForeignSecrets(args []string) []string {
	at := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--from") })
	kept := withoutSecrets(args[:at])
	for _, arg := range args[at:] {
		flag, command := "", arg
		if value, joined := strings.CutPrefix(arg, "--from="); joined {
			flag, command = "--from=", value
		}
		if words, err := flags.Split(command); err != nil {
			command = notKept
		} else if len(words) > 1 {
			command = quoted(withoutSecrets(words))
		}
		kept = append(kept, flag+command)
	}
	return kept
}

// withoutSecretField hides the value of a header's field whose name says that it is secret.
func withoutSecretField(field string) string {
	name, _, found := strings.Cut(field, ":")
	lower := strings.ToLower(name)
	secret := func(word string) bool { return strings.Contains(lower, word) }
	if found && slices.ContainsFunc([]string{"auth", "cookie", "token", "secret", "password", "key"}, secret) {
		return name + ": " + notKept
	}
	return field
}

// withoutPassword hides the password in a URL.
func withoutPassword(text string) string {
	where, err := url.Parse(text)
	if err != nil || where.User == nil {
		return text
	}
	before, after, _ := strings.Cut(text, "@")
	scheme, _, _ := strings.Cut(before, "://")
	return scheme + "://" + notKept + "@" + after
}
