package compose

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/wire/service"
)

// listOf reads a list from standard input, and makes its requests.
func listOf(text, server string, o Options) (*Request, error) {
	list, err := ReadTargets("-", strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	if server, err = list.Server(server); err != nil {
		return nil, err
	}
	to, err := service.ParseTarget(server, "http")
	if err != nil {
		return nil, err
	}
	o.Targets = list
	return o.Compose(to)
}

// lines returns the requests, one per line.
func lines(r *Request) string {
	var all []string
	for _, one := range r.All {
		text := one.Method + " " + one.Path
		for _, f := range one.Header {
			text += " " + f.Name + "=" + f.Value
		}
		if len(one.Body) > 0 {
			text += " " + string(one.Body)
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n")
}

func TestTargets(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{"body.json": `{"a":1}`, "empty": ""} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		text, server string
		options      Options
		want         string
	}{
		"URLs": {text: "http://a/1\n\n  http://a/2?x=1 \r\n", want: "GET /1\nGET /2?x=1"},
		// As in vegeta's README: blank lines may be left out, and comments stand anywhere.
		"vegeta": {
			text: "# a list\nGET http://a/1\nX-Account-ID: 99\n\nDELETE http://a/2\nConfirm: 2\nPOST http://a/3\n# with a body\nContent-Type: application/json\n@body.json\n",
			want: "GET /1 X-Account-Id=99\nDELETE /2 Confirm=2\nPOST /3 Content-Type=application/json {\"a\":1}",
		},
		"an empty body": {text: "PUT http://a/\n@empty", options: Options{Data: "x"}, want: "PUT /"},
		"JSON": {
			text: `{"method":"POST","url":"http://a/1","body":"aGk=","header":{"x-b":["1","2"],"X-A":["3"]}}` + "\n\n" + `{"url":"http://a/2"}`,
			want: "POST /1 X-A=3 X-B=1 X-B=2 hi\nGET /2",
		},
		"for all": {
			text:    "GET http://a/1\nX-B: own\n\nhttp://a/2\n",
			options: Options{Headers: []string{"X-B: all", "X-C: 1"}, Bearer: "t", Data: "d"},
			want:    "GET /1 X-C=1 Authorization=Bearer t X-B=own d\nPOST /2 X-B=all X-C=1 Authorization=Bearer t d",
		},
		"a method for bare URLs":  {text: "GET http://a/1\nhttp://a/2", options: Options{Method: "head"}, want: "GET /1\nHEAD /2"},
		"a user":                  {text: "http://ann:pw@a/1\nhttp://a/2", want: "GET /1 Authorization=Basic YW5uOnB3\nGET /2"},
		"paths":                   {text: "/1\nPUT /2\nhttp://elsewhere/3", server: "127.0.0.1:8080", want: "GET /1\nPUT /2\nGET /3"},
		"the same server":         {text: "http://a/1\nhttp://a:80/2", want: "GET /1\nGET /2"},
		"templates":               {text: "GET http://a/{{json .Row.id}}\n", want: "GET /{{json .Row.id}}"},
		"a byte order mark":       {text: "\ufeffhttp://a/1", want: "GET /1"},
		"a path is no host":       {text: "http://a", want: "GET /"},
		"a method of the user's":  {text: "PURGE http://a/1", want: "PURGE /1"},
		"a header of another one": {text: "http://a/1\nHost: b\nX: 1\n\nhttp://a/2\nHost: b", want: "GET /1 X=1\nGET /2"},
	} {
		r, err := listOf(c.text, c.server, c.options)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := lines(r); got != c.want {
			t.Errorf("%s: found\n%s\nwant\n%s", name, got, c.want)
		}
		if wantHost := map[bool]string{true: "b"}[strings.Contains(c.text, "Host: b")]; r.Host != wantHost {
			t.Errorf("%s: the host is %q", name, r.Host)
		}
	}
}

func TestWrongTargets(t *testing.T) {
	t.Chdir(t.TempDir())
	for text, says := range map[string]string{
		"":                         "standard input: found no request: write one per line, as in GET http://127.0.0.1:8080/",
		"# only this\n":            "found no request",
		"hello":                    `standard input:1: found "hello": want METHOD URL or a URL, as in GET http://127.0.0.1:8080/`,
		"X-A: 1\nGET http://a/":    `standard input:1: found "X-A: 1": want METHOD URL`,
		"GET http://a/\n\nX-A: 1":  `standard input:3: found "X-A: 1": want METHOD URL`,
		"GET http://a/\nsecret":    "standard input:2: want a header field, as in 'Accept: text/html', @FILE for the body, or the next request",
		"GET http://a/\n@":         "standard input:2: found a second body, or @ without a file",
		"GET http://a/\n@x\n@y":    "standard input:3: found a second body",
		"GET http://a/\n@nothere":  "standard input:1: the body @nothere: open nothere: no such file",
		"GET /a":                   "standard input:1: found the path /a: write a whole URL, or give the server as TARGET",
		"http://a/1\nhttp://b/2":   "standard input:2: found the server http://b, but line 1 calls http://a: a load calls one server; make a list for each",
		"http://a/1\nhttps://a/2":  "standard input:2: found the server https://a, but line 1 calls http://a",
		"GET grpc://a:1/p.S/M":     `standard input:1: found the URL "grpc://a:1/p.S/M": want http:// or https://; for gRPC give one TARGET`,
		"GET http://a/b c":         `standard input:1: found a space in the URL "http://a/b c": write it as %20`,
		"GET http://a:99999/":      "standard input:1: target http://a:99999/: the port is",
		"{\"url\":\"http://a/\"":   "standard input:1: want one object per line",
		"{\"url\":\"http://a/\"}{": "more text follows the object",
		"{\"uri\":\"http://a/\"}":  `unknown field "uri"`,
		"{\"method\":\"GET\"}":     `standard input:1: found no "url": give one`,
		"{\"url\":\"http://a/\",\"body\":\"hi there\"}":       "standard input:1: want one object per line",
		"{\"url\":\"http://a/\",\"header\":{\"A B\":[\"\"]}}": `the header field "A B": want a name and values that HTTP allows`,
		"{\"url\":\"http://a/\",\"method\":\"A B\"}":          `standard input:1: found "A B": want an HTTP method`,
		"http://a/1\nHost: b\n\nhttp://a/2\nHost: c":          "standard input:4: found Host: c, but line 1 has Host: b: all requests of a load have one Host",
	} {
		if r, err := listOf(text, "", Options{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %+v, %v; want an error with %q", text, r, err, says)
		}
	}
	if _, err := listOf("/a", "http://a/b", Options{}); err == nil || !strings.Contains(err.Error(), "want http:// or https:// with a host and no path") {
		t.Errorf("a server with a path: %v", err)
	}
	if _, err := listOf(strings.Repeat("http://a/\n", maxTargets+1), "", Options{}); err == nil || !strings.Contains(err.Error(), "standard input:100001: more than 100000 requests") {
		t.Errorf("too many targets: %v", err)
	}
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, 40<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listOf("http://a/\n@"+large+"\n\nhttp://a/\n@"+large, "", Options{}); err == nil || !strings.Contains(err.Error(), "standard input:4: list and bodies have more than 64 MiB") {
		t.Errorf("too large bodies: %v", err)
	}
}

// Few requests have names of their own, more have the names of their paths, and many have none.
func TestNamesOfTargets(t *testing.T) {
	for _, c := range []struct {
		format string
		want   []string
	}{
		{"http://a/%d\nhttp://a/b?token=%[1]d\n", []string{"GET /b?token=…", "GET /1"}},
		{"http://a/a?q=%d\nPUT http://a/b?q=%[1]d\n", []string{"GET /a", "PUT /b"}},
		{"http://a/%d/1\nhttp://a/%[1]d/2\nhttp://a/b\n", []string{""}},
	} {
		text := ""
		for i := range 19 {
			text += fmt.Sprintf(c.format, i)
		}
		r, err := listOf(text, "", Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !slices.ContainsFunc(r.All, func(one service.Request) bool { return one.Name == want }) {
				t.Errorf("%q: no request has the name %q", c.format, want)
			}
		}
	}
}

// Whatever a list holds, each request has a place, and can be sent or is refused.
func FuzzTargets(f *testing.F) {
	for _, seed := range []string{
		"GET http://a/1\nX: 1\n@body\n\nPOST http://a/2", "http://a/\n#\nhttp://a/2", `{"method":"PUT","url":"http://a/","body":"aGk=","header":{"A":["b"]}}`, "/a\nGET /b\nHost: c",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := targetParser{Targets: Targets{name: "f"}}
		if p.parse([]byte(text)) != nil {
			return
		}
		for i, one := range p.all {
			if one.line < 1 || i > 0 && one.line <= p.all[i-1].line {
				t.Errorf("request %d is on line %d", i, one.line)
			}
		}
		o := Options{Targets: &p.Targets}
		r, err := o.Compose(web)
		if err == nil && (len(r.All) != len(p.all) || r.Method != r.All[0].Method) {
			t.Errorf("%d requests of %d", len(r.All), len(p.all))
		}
	})
}
