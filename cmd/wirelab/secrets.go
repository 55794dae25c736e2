package main

import (
	"net/url"
	"slices"
	"strings"
)

// secretFlags have values that no run keeps.
var secretFlags = []string{"--bearer", "--user", "-u"}

// headerFlags have values of which some are secret, by the field's name.
var headerFlags = []string{"--header", "-H"}

// notKept stands for a secret.
const notKept = "…"

// withoutSecrets is a command line as a run may keep it, and show to whoever reads its report:
// without passwords, tokens and cookies, as far as flags and fields are known to hold them.
func withoutSecrets(args []string) []string {
	kept := slices.Clone(args)
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
