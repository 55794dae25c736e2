// Package secret hides passwords, tokens and cookies in command lines that wirelab prints or
// stores. It has the only list of flags and header fields whose values are secret.
package secret

import (
	"net/url"
	"slices"
	"strings"
)

// Hidden is the text that replaces a secret.
const Hidden = "…"

// secretFlags lists the flags of wirelab and of other load generators whose values are secret.
var secretFlags = []string{"--bearer", "--oauth2-bearer", "--user", "-user", "-u", "-a"}

// headerFlags lists the flags whose values are header fields.
var headerFlags = []string{"--header", "-H", "--push-header"}

// secretFieldWords lists words that mark a header field as secret if its name contains one of them.
var secretFieldWords = []string{"auth", "cookie", "token", "secret", "password", "key"}

// IsSecretFlag reports whether the value of a flag is secret.
func IsSecretFlag(flag string) bool { return slices.Contains(secretFlags, flag) }

// HideField returns a header field, as in "Accept: text/html". It replaces the value if the
// field's name marks it as secret.
func HideField(field string) string {
	name, _, found := strings.Cut(field, ":")
	lower := strings.ToLower(name)
	if found && slices.ContainsFunc(secretFieldWords, func(word string) bool { return strings.Contains(lower, word) }) {
		return name + ": " + Hidden
	}
	return field
}

// HideInArguments returns a command's arguments. It hides secrets in flags, header fields and URLs.
func HideInArguments(args []string) []string {
	kept := slices.Clone(args)
	before := ""
	for i, arg := range kept {
		flag, value, joined := strings.Cut(arg, "=")
		switch {
		case IsSecretFlag(before):
			kept[i] = Hidden
		case before == "-A" && strings.Contains(arg, ":"): // NAME:PASSWORD of ab; a content type of hey has no colon
			kept[i] = Hidden
		case slices.Contains(headerFlags, before):
			kept[i] = HideField(arg)
		case joined && IsSecretFlag(flag):
			kept[i] = flag + "=" + Hidden
		case joined && slices.Contains(headerFlags, flag):
			kept[i] = flag + "=" + HideField(value)
		case strings.HasPrefix(arg, "-H") && len(arg) > len("-H"):
			kept[i] = "-H" + HideField(strings.TrimPrefix(arg, "-H"))
		case strings.Contains(arg, "://") && strings.Contains(arg, "@"):
			kept[i] = hidePassword(arg)
		}
		before = arg
	}
	return kept
}

func hidePassword(text string) string {
	if key, address, found := strings.Cut(text, "="); found && !strings.Contains(key, "://") { // as in --push prometheus=http://…
		return key + "=" + hidePassword(address)
	}
	where, err := url.Parse(text)
	if err != nil || where.User == nil {
		return text
	}
	before, after, _ := strings.Cut(text, "@")
	scheme, _, _ := strings.Cut(before, "://")
	return scheme + "://" + Hidden + "@" + after
}
