package foreign

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/foreign/flags"
)

// example is a line of the page: what someone has, and what it becomes here.
type example struct{ whose, has string }

var examples = []example{
	{"hey", "hey -z 30s -c 50 -q 10 -h2 https://127.0.0.1:8443/"},
	{"oha", "oha -n 10k -c 50 -p 4 --http2 --no-tui http://127.0.0.1:8080/"},
	{"wrk", "wrk -t12 -c400 -d30s http://127.0.0.1:8080/index.html"},
	{"bombardier", "bombardier -c 200 -d 10s -l http://127.0.0.1:8080"},
	{"h2load", "h2load -n100000 -c100 -m100 https://127.0.0.1:8443/"},
	{"fortio", "fortio load -qps 500 -c 8 -t 60s http://127.0.0.1:8080/"},
	{"ab", "ab -k -n 1000 -c 10 -p order.json -T application/json http://127.0.0.1:8080/orders"},
	{"vegeta", `echo "GET http://127.0.0.1:8080/" | vegeta attack -rate 100 -duration 5s | vegeta report`},
	{"vegeta", "vegeta attack -rate=50/s -duration=5s -targets=targets.txt"},
	{"ghz", `ghz --insecure --call helloworld.Greeter.SayHello -d '{"name":"Joe"}' -n 2000 -c 20 --connections 10 127.0.0.1:50051`},
	{"ghz", `ghz --insecure --call helloworld.Greeter.SayHello --load-schedule step --load-start 50 --load-end 150 --load-step 10 --load-step-duration 5s 127.0.0.1:50051`},
	{"grpcurl", `grpcurl -plaintext -d '{"name":"Joe"}' 127.0.0.1:50051 helloworld.Greeter/SayHello`},
	{"curl", `curl -X PUT -u joe:pw --json '{"a":1}' https://127.0.0.1:8443/a`},
}

// typed are lines in which one letter has several senses.
var typed = []string{
	"-c 400 -d 30s http://a/",
	"-d 'name=Joe' http://a/",
	"-c 50 -q 10 http://a/",
	"-c 50 -q 10 -h2 http://a/",
	"-t 20 http://a/",
	"-c 8 -t 60s -qps 100 http://a/",
	"-m POST http://a/",
	`-m '{"k":"v"}' --call p.S/M a:50051`,
	"--insecure https://a/",
	"--insecure --call p.S/M a:50051",
	"-x 10s --call p.S/M a:50051",
	"-x proxy:3128 http://a/",
	"-T text/plain -d x http://a/",
	"-T file.txt http://a/",
}

// page returns docs/load-from.md: who writes what, and what it becomes.
func page() string {
	var p strings.Builder
	p.WriteString(pageHead)
	p.WriteString("\n## Examples\n\n| from | it has | `wirelab load` gets |\n| --- | --- | --- |\n")
	for _, e := range examples {
		fmt.Fprintf(&p, "| %s | %s | %s |\n", e.whose, cell(flags.Code(e.has)), cell(became(Commands.TranslateText(e.whose, e.has, nil))))
	}
	p.WriteString(pageTyped)
	p.WriteString("\n| typed behind `wirelab load` | read as |\n| --- | --- |\n")
	for _, line := range typed {
		words, err := flags.Split(line, nil)
		if err != nil {
			panic("an example of the page: " + err.Error())
		}
		fmt.Fprintf(&p, "| %s | %s |\n", cell(flags.Code(line)), cell(became(Commands.TranslateArguments(words))))
	}
	p.WriteString(pageFiles)
	for _, t := range Commands {
		if t.OnlyFiles {
			continue
		}
		fmt.Fprintf(&p, "\n## %s\n\n| flags | become |\n| --- | --- |\n", t.Name)
		for _, row := range flagRows(t) {
			fmt.Fprintf(&p, "| %s | %s |\n", strings.Join(row.names, ", "), cell(row.becomes))
		}
	}
	return p.String()
}

// A flagRow holds the flags of a tool that become the same.
type flagRow struct {
	becomes string
	names   []string
}

const same, leftOut, refused = "the same", "left out", "refused"

// flagRows returns the rows of a tool's table: first the flags that wirelab has under one of their
// names, then the others, each outcome once, and last those that are left out or refused.
func flagRows(t *flags.Tool) []flagRow {
	rows := []flagRow{{becomes: same}}
	for _, o := range t.Options {
		names := strings.Fields(o.Names)
		for i, name := range names {
			if t.OneDash && !t.Letters {
				name = "-" + strings.TrimLeft(name, "-")
			}
			names[i] = flags.Code(name)
		}
		becomes := shortened(o.Becomes.Page)
		if slices.ContainsFunc(names, func(name string) bool { return strings.Trim(name, "`-") == strings.Trim(becomes, "`-") }) {
			becomes = same
		}
		at := slices.IndexFunc(rows, func(r flagRow) bool { return r.becomes == becomes })
		if at < 0 {
			at, rows = len(rows), append(rows, flagRow{becomes: becomes})
		}
		rows[at].names = append(rows[at].names, strings.Join(names, " "))
	}
	last := func(r flagRow) int { return slices.Index([]string{leftOut, refused}, r.becomes) }
	slices.SortStableFunc(rows, func(a, b flagRow) int { return last(a) - last(b) })
	return slices.DeleteFunc(rows, func(r flagRow) bool { return r.names == nil })
}

// shortened returns the outcome without its reason if wirelab prints the reason when it reads the flag.
func shortened(becomes string) string {
	for _, outcome := range []string{leftOut, refused} {
		if strings.HasPrefix(becomes, outcome+": ") {
			return outcome
		}
	}
	return becomes
}

// became is the outcome of a translation for a cell of the page.
func became(arguments, told []string, err error) string {
	if err != nil {
		return "refused: " + err.Error()
	}
	words := []string{}
	for _, argument := range arguments {
		words = append(words, flags.Quote(argument))
	}
	if len(told) == 0 {
		return flags.Code(strings.Join(words, " "))
	}
	return flags.Code(strings.Join(words, " ")) + "<br>" + strings.Join(told, "<br>")
}

// cell keeps a text in its cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

const pageHead = `# From other tools

Paste a command of another tool, or type the flags that you are used to.

    wirelab load --from curl 'curl -X POST -d name=Joe http://127.0.0.1:8080/'
    wirelab load curl -X POST -d name=Joe http://127.0.0.1:8080/
    wirelab load --from ghz report.json
    wirelab load -z 30s -c 50 -q 10 -h2 https://127.0.0.1:8443/
    wirelab load --from 'echo "GET http://127.0.0.1:8080/" | vegeta attack -duration=5s | vegeta report'

- **Pasted** (whole behind ` + "`wirelab load`" + `, or in quotes behind ` + "`--from`" + `), a command means what it means in its tool, with that tool's defaults. wirelab's own flags may stand before or behind it. ` + "`--from`" + ` reads quotes, backslashes, continued lines and variables of the environment as a shell does, but executes nothing: it refuses ` + "`$(…)`" + ` and a second command. Of a pipeline it reads the tool's command, and what ` + "`echo`, `printf`, `cat` and `<`" + ` give to vegeta.
- **Typed** without the tool's name, other tools' flags are read too, with wirelab's defaults. wirelab's own flags come first.

In the tables, *the same* means that wirelab has the flag under one of these names. *Left out* means that the load runs without the flag; wirelab prints a line with the reason. *Refused* is an error that says what to write instead. ` + "`go test ./internal/foreign -update`" + ` writes this page.
`

const pageTyped = `
## One letter, several senses

Tools use one letter for several things. wirelab reads the whole line as a line of the tool whose flags and values fit best; its own flags win a tie.
`

const pageFiles = `
## Files

| file | what is read |
| --- | --- |
| ghz, its JSON report (` + "`-O json`" + `) | the options that it ran with |
| ghz, its configuration as JSON | every flag that it names; TOML and YAML are not read |
| k6, the JSON of ` + "`--summary-export`" + ` or of handleSummary | clients and duration; the URL only where a threshold names one, since a summary does not name the called URL; a script is not run |
`
