package feed

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/wire/schema"
	"wirelab.dev/internal/wire/service"
)

var people = service.Rows{Columns: []string{"id", "first name"}, Values: [][]string{{"1", "Ann"}, {"2", `B"ob`}, {"3", "Cy"}}}

func plan(path, body string, header ...string) *service.Feed {
	r := service.Request{Method: "POST", Path: path, Body: []byte(body)}
	for i := 0; i < len(header); i += 2 {
		r.Header = append(r.Header, service.Field{Name: header[i], Value: header[i+1]})
	}
	return &service.Feed{Requests: []service.Request{r}, Rows: people}
}

// over sends a plan through JSON, as it goes to a worker.
func over(t testing.TB, p *service.Feed) *Feed {
	t.Helper()
	encoded, err := json.Marshal(service.Definition{Feed: p})
	if err != nil {
		t.Fatal(err)
	}
	d, err := service.Parse(string(encoded))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(d.Feed)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func next(t testing.TB, s *Source) *service.Request {
	t.Helper()
	r, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestClientsInTurnTakeDifferentRows(t *testing.T) {
	p := plan("/{{.Row.id}}", `{{.N}} of {{.Client}}: {{index .Row "first name"}}`, "x-fixed", "1", "x-row", "{{.Row.id}}")
	f := over(t, p)
	var sources []*Source
	for i := range 2 {
		sources = append(sources, f.Source(service.Share{Number: i, Of: 2}))
	}
	var got []string
	for range 3 {
		for _, s := range sources {
			r := next(t, s)
			if r.Header[1].Value != r.Path[1:] || r.Header[0].Value != "1" {
				t.Errorf("%+v", r)
			}
			got = append(got, r.Path+" "+string(r.Body))
		}
	}
	want := []string{"/1 1 of 0: Ann", "/2 2 of 1: B\"ob", "/3 3 of 0: Cy", "/1 4 of 1: Ann", "/2 5 of 0: B\"ob", "/3 6 of 1: Cy"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if p.Requests[0].Header[1].Value != "{{.Row.id}}" {
		t.Error("the plan was written to")
	}
}

// A request made before is not changed by the next.
func TestRequestsStay(t *testing.T) {
	s := over(t, plan("/{{.N}}", "{{.N}}", "n", "{{.N}}")).Source(service.Share{Of: 1})
	first := next(t, s)
	next(t, s)
	if first.Path != "/1" || string(first.Body) != "1" || first.Header[0].Value != "1" {
		t.Errorf("%+v", first)
	}
}

func TestEachRowGoesWithEachRequest(t *testing.T) {
	p := plan("/a{{.Row.id}}", "")
	p.Requests = append(p.Requests, service.Request{Path: "/b{{.Row.id}}"}, service.Request{Path: "/c{{.Row.id}}"})
	s := over(t, p).Source(service.Share{Of: 1})
	seen := map[string]int{}
	for range 18 {
		seen[next(t, s).Path]++
	}
	if len(seen) != 9 || seen["/c3"] != 2 {
		t.Errorf("%v", seen)
	}
}

func TestASeedMakesTheSameRequests(t *testing.T) {
	p := plan("/{{.Row.id}}", "{{uuid}} {{randomInt 1 9}} {{randomString 8 16}} {{randomString 3}} {{.UUID}} {{.UUID}}")
	p.Random = true
	f := over(t, p)
	all := func(c service.Share) string {
		var text strings.Builder
		s := f.Source(c)
		for range 50 {
			r := next(t, s)
			fmt.Fprintf(&text, "%s %s\n", r.Path, r.Body)
		}
		return text.String()
	}
	first := all(service.Share{Of: 2, Seed: 7})
	if first != all(service.Share{Of: 2, Seed: 7}) {
		t.Error("the same seed made other requests")
	}
	if first == all(service.Share{Of: 2, Seed: 8}) || first == all(service.Share{Number: 1, Of: 2, Seed: 7}) {
		t.Error("another seed or client made the same requests")
	}
	const uuid = `[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`
	line := regexp.MustCompile(`^/[123] (` + uuid + `) [1-8] [A-Za-z0-9]{8,16} [A-Za-z0-9]{3} (` + uuid + `) (` + uuid + `)$`)
	for _, made := range strings.Split(strings.TrimSpace(first), "\n") {
		if m := line.FindStringSubmatch(made); len(m) != 4 || m[2] != m[3] || m[1] == m[2] {
			t.Errorf("%s", made)
		}
	}
	for _, path := range []string{"/1 ", "/2 ", "/3 "} {
		if !strings.Contains(first, path) {
			t.Errorf("row %s was never taken", path)
		}
	}
}

func TestFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock there begins on 2000-01-01
		for template, want := range map[string]string{
			"{{now}}":                                               "2000-01-01T00:00:00.000Z",
			"{{rfc3339}}{{.Timestamp}}":                             "2000-01-01T00:00:00Z2000-01-01T00:00:00Z",
			"{{unix}} {{.TimestampUnix}}":                           "946684800 946684800",
			"{{unixMilli}} {{.TimestampUnixMilli}}":                 "946684800000 946684800000",
			"{{.TimestampUnixNano}}":                                "946684800000000000",
			"{{.RequestNumber}} {{.WorkerID}} {{.N}}":               "3 1 4",
			"{{json (index .Row \"first name\")}} {{json .Row.id}}": `"Ann" "1"`,
			"{{urlquery \"a b&c\"}}":                                "a+b%26c",
			"{{add .N 10}} {{mod .N 3}}":                            "14 1",
			"{{printf \"%05d\" .N}} {{print .N \"x\"}}":             "00004 4x",
			"{{if eq .N 4}}four{{else}}other{{end}}":                "four",
			"{{if and (gt .N 3) (not (lt .N 4))}}y{{end}}":          "y",
			"{{$n := .N}}{{$n}} {{$.Row.id}}":                       "4 1",
			"{{/* nothing */}}-{{- \" x\" }}":                       "- x",
			"{{slice .Row.id 0 1}}{{len .Row.id}}":                  "11",
		} {
			f, err := Parse(plan("/", template))
			if err != nil {
				t.Errorf("%s: %v", template, err)
				continue
			}
			s := f.Source(service.Share{Number: 1, Of: 2})
			next(t, s)
			r := next(t, s)
			if string(r.Body) != want {
				t.Errorf("%s: %s, want %s", template, r.Body, want)
			}
		}
	})
}

func TestEachCallHasItsOwnTimeAndUUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := over(t, plan("/{{.UUID}}", "{{.UUID}} {{unix}}")).Source(service.Share{Of: 1})
		first := next(t, s)
		time.Sleep(time.Second)
		second := next(t, s)
		if first.Path == second.Path || !strings.HasPrefix(string(second.Body), second.Path[1:]) {
			t.Errorf("%s, then %s with %s", first.Path, second.Path, second.Body)
		}
		if !strings.HasSuffix(string(first.Body), " 946684800") || !strings.HasSuffix(string(second.Body), " 946684801") {
			t.Errorf("%s, a second later %s", first.Body, second.Body)
		}
	})
}

func TestWrongTemplatesAreExplained(t *testing.T) {
	long := "{{$a := randomString 1048576}}" + strings.Repeat("{{$a}}", 17)
	for template, says := range map[string]string{
		"ok\n  {{uid}}":                  `the body, line 2, column 5: there is no function uid: did you mean uuid?`,
		"{{.Row.idd}}":                   `the body, line 1, column 7: the data has no column "idd": did you mean id?`,
		"{{index .Row \"firstname\"}}":   `column 14: the data has no column "firstname": did you mean first name?`,
		"x {{$.Row.idd}}":                `column 6: the data has no column "idd"`,
		"{{.Number}}":                    `there is no .Number: want one of N, Client, Row`,
		"{{.Clint}}":                     `did you mean Client?`,
		"{{.Row}}":                       `.Row is a whole row: name one of the row's columns, as in {{.Row.id}}`,
		"{{.Row.id.x}}":                  `.Row.id is a text, so .x cannot follow: leave .x out`,
		"{{.N.x}}":                       `.N is a single value`,
		"{{range 10}}x{{end}}":           `column 9: {{range}} is not supported: use only {{if}}`,
		"{{with .N}}x{{end}}":            `{{with}} is not supported`,
		"{{template \"x\"}}":             `{{template}} is not supported`,
		"{{define \"x\"}}y{{end}}{{.N}}": `{{define}} and {{block}} are not supported`,
		"{{block \"x\" .}}y{{end}}":      `are not supported`,
		"a\n{{if .N}}":                   `the body, line 2, column 1: found {{if}} without {{end}}`,
		"{{.N":                           `the body, line 1, column 1: found {{ without }}: close the template, as in {{.N}}`,
		"{{":                             `the body, line 1, column 1: `,
		"{{randomInt 9 1}}":              `the body, line 1, column 3: at <randomInt 9 1>: `,
		"{{randomInt 1}}":                `wrong number of args`,
		"{{randomInt .Row.id 3}}":        `the body, line 1, column 17: `,
		"{{randomString 1 2 3}}":         `want one argument (the length)`,
		"{{randomString 1048577}}":       `the lengths are 1048577 and 1048577`,
		"{{mod 1 0}}":                    `division by zero`,
		long:                             `the body: the template's output is longer than 16 MiB`,
		"{{$a := printf \"%999999d\" 1}}{{printf \"%s%s\" $a $a}}": `an argument has 999999 bytes: want at most 16 KiB`,
		"{{printf \"" + strings.Repeat("%s", 65) + "\"}}":          `more than 64 verbs`,
		"{{printf \"%999999d%999999d\" 1 1}}":                      `the value has 1999998 bytes`,
		"{{call .N}}":                                              `there is no function call`,
		"{{js \"x\"}}":                                             `there is no function js`,
	} {
		if err := Check(plan("/", template)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s\n got %v\nwant %s", template, err, says)
		}
	}
}

func TestWrongRequestsAreToldBeforeTheFirst(t *testing.T) {
	for says, p := range map[string]*service.Feed{
		`row 2 of the data: the content type is JSON, but the body is not`: plan("/", `{"n": "{{index .Row "first name"}}"}`, "Content-Type", "application/json"),
		`{{json .Row.name}} adds`: plan("/", `{"n": {{index .Row "first name"}}}`, "content-type", "application/problem+json"),
		`the template made the path "x1": want a path that begins with a slash`: plan("x{{.N}}", ""),
		`with a space or a control character: {{urlquery`:                       plan("/{{.N}} x", ""),
		`the template of the header x made a value with a line break`:           plan("/", "", "x", "{{.N}}\n"),
		`the header x, line 1, column 3: there is no`:                           plan("/", "", "x", "{{uid}}"),
		`the path, line 1, column 4: there is no`:                               plan("/{{uid}}", ""),
		`the plan has no request`:                                               {},
		`the data has no rows`:                                                  {Requests: make([]service.Request, 1), Rows: service.Rows{Columns: []string{"a"}}},
		`row 1 of the data has 0 values`:                                        {Requests: make([]service.Request, 1), Rows: service.Rows{Columns: []string{"a"}, Values: [][]string{{}}}},
		`there is no data: name a data file with --rows`:                        {Requests: []service.Request{{Path: "/{{.Row.x}}"}}},
		`request second: the path`:                                              {Requests: []service.Request{{Path: "/"}, {Name: "second", Path: "/{{x}}"}}},
	} {
		if err := Check(p); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v\nwant %s", err, says)
		}
	}
	if err := Check(plan("/{{urlquery (index .Row \"first name\")}}", `{"n": {{json (index .Row "first name")}}}`, "content-type", "application/json")); err != nil {
		t.Error(err)
	}
}

// grpcPlan is a plan for a method of schema's testdata.
func grpcPlan(t testing.TB, call, body string) *service.Feed {
	t.Helper()
	m, err := schema.Find(t.Context(), schema.Source{Proto: "../../schema/testdata/ledger.proto", Call: call})
	if err != nil {
		t.Fatal(err)
	}
	files, err := m.Files()
	if err != nil {
		t.Fatal(err)
	}
	return &service.Feed{Requests: []service.Request{{Path: m.Path, Body: []byte(body)}}, Rows: people, Descriptors: files}
}

func TestMessagesOfGRPC(t *testing.T) {
	for _, c := range []struct {
		call, body string
		want       []string // call by call
	}{
		{"Book", `{"marks": [{{.N}}]}`, []string{`[1]`, `[2]`}},
		{"Book", `[{"marks": [{{.N}}]}, {"marks": [7{{.N}}]}]`, []string{`[1]`, `[72]`, `[3]`}},
		{"Book", `[{"marks": [1]}, {"marks": [2]}]`, []string{`[1]`, `[2]`, `[1]`}},
		{"BookAll", `[{"marks": [{{.N}}]}, {"marks": [7]}]`, []string{`[1][7]`, `[2][7]`}},
		{"Book", ``, []string{`[]`}},
	} {
		p := grpcPlan(t, "ledger.v1.Ledger/"+c.call, c.body)
		m, err := schema.Load(p.Descriptors, "ledger.v1.Ledger/Book") // whose answer has the same type
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(p); err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		s := over(t, p).Source(service.Share{Of: 1})
		for i, want := range c.want {
			r := next(t, s)
			got := ""
			for _, message := range r.Messages {
				text, err := m.Decode(message)
				if err != nil {
					t.Fatal(err)
				}
				var entry struct{ Marks json.RawMessage }
				if err := json.Unmarshal(text, &entry); err != nil {
					t.Fatal(err)
				}
				got += string(entry.Marks)
			}
			if got != want || r.Body != nil || r.Stream.Client != (c.call == "BookAll") {
				t.Errorf("%s, call %d: %s, want %s; %+v", c.body, i+1, got, want, r)
			}
		}
	}
	for body, says := range map[string]string{
		`{"mark": [{{.N}}]}`: `row 1 of the data: the template made the body {"mark": [1]}: line 1, column 2: ledger.v1.Entry has no field "mark": did you mean marks?`,
		`{"order": {"id": "{{index .Row "first name"}}"}}`: `row 2 of the data: the template made the body {"order": {"id": "B"ob"}}: line 1, column 21: this is not JSON`,
		`{"mark": 1}`: `has no field "mark"`,
	} {
		if err := Check(grpcPlan(t, "ledger.v1.Ledger/Book", body)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v\nwant %s", err, says)
		}
	}
}

// Clients share a feed's templates, and nothing that they write to.
func TestClientsMakeRequestsAtOnce(t *testing.T) {
	f := over(t, grpcPlan(t, "ledger.v1.Ledger/Book", `{"order": {"id": {{json .Row.id}}}, "marks": [{{randomInt 0 9}}]}`))
	ended := make(chan error)
	for i := range 4 {
		go func() {
			s := f.Source(service.Share{Number: i, Of: 4})
			for range 50 {
				if _, err := s.Next(); err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
	}
	for range 4 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestATextWithoutATemplateCostsNothing(t *testing.T) {
	s := over(t, plan("/fixed", strings.Repeat("x", 1<<16), "a", "b")).Source(service.Share{Of: 1})
	if got := testing.AllocsPerRun(100, func() { next(t, s) }); got > 1 { // the request
		t.Errorf("%v allocations a request, want 1", got)
	}
}

func FuzzTemplate(f *testing.F) {
	for _, text := range []string{
		"", "{{.N}}", "{{.Row.id}} {{index .Row \"first name\"}}", "{{if eq .N 1}}a{{else}}b{{end}}", "{{range 1000000000}}{{end}}",
		"{{$a := randomString 9}}{{printf \"%s\" $a}}", "{{randomInt 1 9223372036854775807}}", "{{randomInt -9223372036854775807 9}}", "{{(((.N)))}}", "{{nil}}", "{{1 | print}}", "{{break}}",
		"{{define \"the body\"}}{{end}}", "{{.}}", "{{$}}", "{{slice \"abc\" 2 1}}", "{{mod 1 -1}}", "{{(index .Row).x}}", "{{json .}}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		err := Check(plan("/"+text, text, "x", text))
		if err != nil && !strings.Contains(err.Error(), "the ") {
			t.Errorf("%q: %v does not say where", text, err)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	for name, p := range map[string]*service.Feed{
		"fixed":  plan("/", `{"id": 1}`),
		"number": plan("/{{.N}}", ""),
		"http":   plan("/users/{{.Row.id}}", `{"id": {{.N}}, "name": {{json .Row.id}}, "key": "{{uuid}}"}`, "x-request-id", "{{uuid}}"),
		"grpc":   grpcPlan(b, "ledger.v1.Ledger/Book", `{"order": {"id": "{{uuid}}", "lines": [{"sku": {{json .Row.id}}, "quantity": {{randomInt 1 9}}}]}}`),
	} {
		b.Run(name, func(b *testing.B) {
			s := over(b, p).Source(service.Share{Of: 1})
			b.ReportAllocs()
			for b.Loop() {
				next(b, s)
			}
		})
	}
}
