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
		got, err := Split(text, nil)
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
		if got, err := Split(text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %.80q, %v; want an error with %q", text, got, err, want)
		}
	}
}

// Variables have their values, in quotes or not, and are not split into words.
func TestSplitReplacesVariables(t *testing.T) {
	environment := func(name string) (string, bool) {
		value, is := map[string]string{"TOKEN": `a "b" $c`, "EMPTY": "", "DASH": "-k", "HOST": "h"}[name]
		return value, is
	}
	for text, want := range map[string][]string{
		`-H "X: $TOKEN" -d '$TOKEN'`:   {"-H", `X: a "b" $c`, "-d", "$TOKEN"},
		`http://${HOST}:80/a$HOST"$$"`: nil,
		`http://${HOST}:80/a$HOST`:     {"http://h:80/ah"},
		`-d $EMPTY`:                    {"-d", ""},
		`-H "$DASH" a$DASH`:            {"-H", "-k", "a-k"},
		`\$TOKEN "\$TOKEN"`:            {"$TOKEN", "$TOKEN"},
	} {
		got, err := Split(text, environment)
		if (err != nil) != (want == nil) || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`-H "X: $MISSING"`: "the environment variable MISSING is not set: set it, or write its value",
		"a ${MISSING}":     "MISSING is not set",
		"a $DASH":          "begins with a dash, so it would be read as a flag",
		"a ${HOST:-b}":     "a variable (${HOST:-b}) is not replaced",
		"a $1":             "a variable ($1) is not replaced",
	} {
		if got, err := Split(text, environment); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want an error with %q", text, got, err, want)
		}
	}
	huge := func(string) (string, bool) { return strings.Repeat("a", MaxTextBytes/2), true }
	if _, err := Split("$A$B$C", huge); err == nil || !strings.Contains(err.Error(), "the limit is 1048576") {
		t.Errorf("three large variables: %v", err)
	}
}

func TestPipeline(t *testing.T) {
	for text, want := range map[string]string{
		`a b`:                        `[a b]`,
		`echo "x|y" | a 'b > c' | d`: `[echo x|y] [a b > c] [d]`,
		"a |\n b \\\n c > d":         `[a] [b c]>d`,
		`a < b > "c d"`:              `[a]<b>c d`,
		`a>>b 2>&1`:                  `[a]>b`,
		`a 2>/dev/null b`:            `[a b]>/dev/null`,
		`a2>b`:                       `[a2]>b`,
		`a # b | c`:                  `[a]`,
	} {
		commands, err := pipeline(text, nil)
		got := []string{}
		for _, c := range commands {
			shown := "[" + strings.Join(c.words, " ") + "]"
			if c.from != "" {
				shown += "<" + c.from
			}
			if c.to != "" {
				shown += ">" + c.to
			}
			got = append(got, shown)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"| a": "no command stands before the pipe", "a |": "no command follows the last pipe", "a | | b": "no command stands before",
		"a || b": "|| begins another command", "a <<E": `"<<" is not read`, "a <(b)": `"<(" is not read`, "a >": "no file follows >", "a > | b": "no file follows >", "a > < b": "no file follows >",
		"a && b": "ends a command", strings.Repeat("a|", MaxWords+1): "more than 4096 words",
	} {
		if got, err := pipeline(text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, %v; want an error with %q", text, got, err, want)
		}
	}
}

// What other commands would give to a tool is known only for texts and files.
func TestInputOf(t *testing.T) {
	for text, want := range map[string]Input{
		`echo a b | x`:          {Text: "a b\n"},
		`echo 'a\n' | x`:        {Text: "a\\n\n"},
		`echo -e "a\nb" | x`:    {Text: "a\nb\n"},
		`echo -n -- | x`:        {Text: "--\n"},
		`printf 'a\tb\r\n' | x`: {Text: "a\tb\n"},
		`cat t.txt | x`:         {File: "t.txt"},
		`x < t.txt`:             {File: "t.txt"},
	} {
		commands, err := pipeline(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		last := len(commands) - 1
		if got, err := inputOf(commands[:last], commands[last]); err != nil || got == nil || *got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"jq . | x", "cat a b | x", "printf '%s' a | x", "echo a | sort | x", "cat < a | x"} {
		commands, err := pipeline(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		last := len(commands) - 1
		if got, err := inputOf(commands[:last], commands[last]); err == nil || !strings.Contains(err.Error(), "is not run: write its output into a file") {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

func TestHideSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"hey.txt": "hey.txt",
		`echo "GET http://a/?token=s3" | vegeta attack -header "Authorization: s3" > r | vegeta report`: `echo 'GET http://a/?token=…' | vegeta attack -header 'Authorization: …' > r | vegeta report`,
		`printf 'GET http://a/\nX-Key: s3' | vegeta attack`:                                             `printf … | vegeta attack`,
		`vegeta attack < t.txt`: `vegeta attack < t.txt`,
		`curl "-d s3`:           "…",
		`curl -u a:s3 $URL`:     "curl -u … '$URL'",
	} {
		if got := HideSecrets(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
