// Package secret hides passwords, tokens and cookies in command lines that wirelab prints or
// stores. It has the only list of flags and header fields whose values are secret.
package secret

import (
	"net/url"
	"slices"
	"strings"

	"wirelab.dev/internal/base/pattern"
)

// Hidden is the text that replaces a secret.
const Hidden = "…"

// secretFlags lists the flags of wirelab and of other load generators whose values are secret.
var secretFlags = []string{"--bearer", "--oauth2-bearer", "--user", "-user", "-u", "-a"}

// headerFlags lists the flags whose values are header fields.
var headerFlags = []string{"--header", "-header", "-H", "--push-header"}

// dataFlags lists the flags whose values are data of a request.
var dataFlags = []string{"-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--data-urlencode", "--json", "-F", "--form", "-b", "--body", "-payload", "--payload", "--url-query"}

// secretFieldWords lists words that mark a header field as secret if its name contains one of them.
var secretFieldWords = []string{"auth", "cookie", "token", "secret", "password", "key"}

// IsSecretFlag reports whether the value of a flag is secret.
func IsSecretFlag(flag string) bool { return slices.Contains(secretFlags, flag) }

// IsSecretName reports whether the name of a header field, a parameter or a member marks its value as
// secret.
func IsSecretName(name string) bool {
	lower := strings.ToLower(name)
	return slices.ContainsFunc(secretFieldWords, func(word string) bool { return strings.Contains(lower, word) })
}

var (
	// member matches a member of a JSON object whose value is a text or a number.
	member = pattern.Lazy(`"((?:[^"\\]|\\.)*)"(\s*:\s*)("(?:[^"\\]|\\.)*"?|[^\s",{}\[\]]+)`)
	// parameter matches a parameter of a query or of a form.
	parameter = pattern.Lazy(`([^?&=#\s"']+)=([^&#\s"']+)`)
)

// HideData returns the body or the URL of a request. It replaces the values of JSON members and of
// parameters of a query or a form whose names mark them as secret.
func HideData(text string) string {
	text = member().ReplaceAllStringFunc(text, func(found string) string {
		parts := member().FindStringSubmatch(found)
		if !IsSecretName(parts[1]) {
			return found
		}
		return `"` + parts[1] + `"` + parts[2] + `"` + Hidden + `"`
	})
	return parameter().ReplaceAllStringFunc(text, func(found string) string {
		name, _, _ := strings.Cut(found, "=")
		if !IsSecretName(name) {
			return found
		}
		return name + "=" + Hidden
	})
}

// HideField returns a header field, as in "Accept: text/html". It replaces the value if the
// field's name marks it as secret.
func HideField(field string) string {
	name, _, found := strings.Cut(field, ":")
	if found && IsSecretName(name) {
		return name + ": " + Hidden
	}
	return field
}

// HideInArguments returns a command's arguments. It hides secrets in flags, header fields, data and
// URLs.
func HideInArguments(args []string) []string {
	kept := slices.Clone(args)
	before := ""
	for i, arg := range kept {
		flag, value, joined := strings.Cut(arg, "=")
		switch {
		case IsSecretFlag(before):
			kept[i] = Hidden
		case slices.Contains(headerFlags, before):
			kept[i] = HideField(arg)
		case joined && IsSecretFlag(flag):
			kept[i] = flag + "=" + Hidden
		case joined && slices.Contains(headerFlags, flag):
			kept[i] = flag + "=" + HideField(value)
		case strings.HasPrefix(arg, "-H") && len(arg) > len("-H"):
			kept[i] = "-H" + HideField(strings.TrimPrefix(arg, "-H"))
		case before == "-A" && strings.Contains(arg, ":"): // NAME:PASSWORD of ab; a content type of hey has no colon
			kept[i] = Hidden
		case strings.Contains(arg, "://"):
			kept[i] = HideData(hidePassword(arg))
		case slices.Contains(dataFlags, before):
			kept[i] = HideData(arg)
		case joined && slices.Contains(dataFlags, flag):
			kept[i] = flag + "=" + HideData(value)
		case strings.HasPrefix(arg, "-d") && len(arg) > len("-d"):
			kept[i] = "-d" + HideData(strings.TrimPrefix(arg, "-d"))
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
