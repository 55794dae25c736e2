package flags

import (
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	for text, want := range map[string][]string{
		`a  b	c`:                          {"a", "b", "c"},
		`'a b' "c d" e\ f`:                {"a b", "c d", "e f"},
		`'' ""`:                           {"", ""},
		`a'b'"c"\d`:                       {"abcd"},
		`"a\"b\\c\$d\x"`:                  {`a"b\c$d\x`},
		`'a\b'`:                           {`a\b`},
		"a \\\n  b":                       {"a", "b"},
		"a \\\r\n  b":                     {"a", "b"},
		"\"a\\\nb\"":                      {"ab"},
		"\n a b \n":                       {"a", "b"},
		"$ a b":                           {"a", "b"},
		"# why\na b # c\n":                {"a", "b"},
		"a#b":                             {"a#b"},
		`$'a\nb\tc\x41\101\u00e9\'\\d\q'`: {"a\nb\tcAAé'\\d\\q"},
		`http://a/?b=c*[1]`:               {"http://a/?b=c*[1]"},
		`a~b ~c 5$ "$ "`:                  {"a~b", "~c", "5$", "$ "},
		`'$a ` + "`b`" + ` |;&<>'`:        {"$a `b` |;&<>"},
	} {
		got, err := Split(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestSplitRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a | b": "pipes", "a; b": "ends a command", "a & b": "in quotes", "http://a?b=1&c=2": "put the URL in quotes",
		"a > b": "a redirection", "a < b": "a redirection", "a <<E": "a redirection",
		"a $(b)": "write its output", "a `b`": "write its output",
		"a $b": "a variable ($b)", `"${b}"`: "a variable", `"$b"`: "a variable", "$1": "a variable", `"` + "`b`" + `"`: "backticks",
		"(a)": "subshell", "'a": "not closed", `"a`: "not closed", "$'a": "not closed", `a \`: "next line is missing",
		"~/a": "home directory", "a ^\nb": "Windows", `a ^"b^"`: "Copy as cURL (bash)",
		"a\nb": "a second command", strings.Repeat("a ", MaxWords+1): "more than 4096 words",
		strings.Repeat("a", MaxTextBytes+1): "the limit is 1048576",
	} {
		if got, err := Split(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %.80q, %v; want an error with %q", text, got, err, want)
		}
	}
}
