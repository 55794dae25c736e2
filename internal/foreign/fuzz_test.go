package foreign

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/foreign/flags"
)

// addPublished seeds with the commands of the tools' documentation.
func addPublished(f *testing.F) {
	files, _ := filepath.Glob("*/testdata/commands.txt")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for record := range strings.SplitSeq(string(data), "\n\n") {
			if _, rest, is := strings.Cut(record, "\n$ "); is {
				command, _, _ := strings.Cut(rest, "\n= ")
				f.Add(command)
			}
		}
	}
}

// What Split reads, written with quotes, is read the same.
func FuzzSplit(f *testing.F) {
	addPublished(f)
	f.Add(`$'a\x41\u00e9\0' "b\"c" 'd'`)
	f.Fuzz(func(t *testing.T, text string) {
		words, err := flags.Split(text, nil)
		if err != nil {
			return
		}
		quoted := []string{}
		for _, word := range words {
			quoted = append(quoted, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
		}
		again, err := flags.Split(strings.Join(quoted, " "), nil)
		if err != nil || !slices.Equal(again, words) {
			t.Errorf("%q: %q, %v", words, again, err)
		}
	})
}

// Whatever is pasted or typed: no panic, and nothing grows out of bounds.
func FuzzTranslate(f *testing.F) {
	addPublished(f)
	f.Add(`{"options":{"host":"a:1","call":"p.S/M","timeout":20000000000,"data":{"a":1}},"statusCodeDistribution":{}}`)
	f.Add(`{"metrics":{"vus_max":{"max":4},"http_reqs{url:http://a/}":{"count":3,"rate":1}},"root_group":{}}`)
	f.Add("ghz --load-schedule=line --load-start=-1 --load-step=99 --load-max-duration=9999999h --call a.b.c d")
	f.Add("ghz --concurrency-schedule=step --concurrency-start=1 --concurrency-end=2000000000 --concurrency-step=1 --call a.b.c d")
	f.Add("--disable-keepalive --no-tui")
	f.Add("printf 'POST http://a/\\nX: 1\\n@b' | vegeta attack -rate 5/1m -duration 5s | tee a > b")
	f.Add("h2load -c 99999 -m 99999 --rps 1e300 a")
	f.Fuzz(func(t *testing.T, text string) {
		check := func(arguments, told []string, err error) {
			if err == nil && len(arguments)+len(told) > 2*flags.MaxWords+1000 {
				t.Errorf("%d arguments, %d told", len(arguments), len(told))
			}
			if err != nil && arguments != nil {
				t.Errorf("arguments %q beside the error %v", arguments, err)
			}
		}
		Commands.Guess(text)
		for _, name := range Commands.Names() {
			check(Commands.TranslateText(name, text, nil))
		}
		if words, err := flags.Split(text, nil); err == nil {
			check(Commands.TranslateArguments(words))
		}
	})
}

// Long inputs: each is done in a time that grows with its length, or
// this test is seen to hang.
func TestLongInputs(t *testing.T) {
	for name, text := range map[string]string{
		"letters":  "curl -" + strings.Repeat("s", flags.MaxTextBytes-10),
		"comments": strings.Repeat("#\n", flags.MaxTextBytes/2-1),
		"lines":    strings.Repeat("\n", flags.MaxTextBytes-1) + "a",
		"flags":    "curl " + strings.Repeat("-s ", flags.MaxWords/4),
		"data":     "curl http://a/ " + strings.Repeat("-d "+strings.Repeat("x", 200)+" ", flags.MaxWords/8),
		"headers":  "hey " + strings.Repeat("-H a:b ", flags.MaxWords/8),
		"escapes":  "curl $'" + strings.Repeat(`\x41`, flags.MaxTextBytes/4-10) + "'",
		"quotes":   "curl '" + strings.Repeat(`"`, flags.MaxTextBytes-10) + "'",
		"unknown":  "ghz " + strings.Repeat("--a ", flags.MaxWords/4),
		"metadata": "ghz -m '{" + strings.Repeat(`"a":"b",`, 10_000) + `"c":"d"}' --call a.b.c d`,
	} {
		if arguments, told, err := Commands.TranslateText(cmp.Or(Commands.Guess(text), "curl"), text, nil); err == nil && len(arguments)+len(told) > 3*flags.MaxWords {
			t.Errorf("%s: %d arguments, %d told", name, len(arguments), len(told))
		}
		if words, err := flags.Split(text, nil); err == nil && len(words) > 0 {
			if _, told, err := Commands.TranslateArguments(words); err == nil && len(told) > 3*flags.MaxWords {
				t.Errorf("%s: %d told", name, len(told))
			}
		}
	}
}
