package compose

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/wire/service"
)

var (
	web  = service.Target{Wire: service.HTTP1, Host: "h", Port: "80", Path: "/"}
	grpc = service.Target{Wire: service.GRPC, Host: "h", Port: "1", Path: "/a.B/C"}
)

// write writes a file for a test, and returns its name.
func write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// header returns a request's fields as text.
func header(r *Request) string {
	var all []string
	for _, f := range r.Header {
		all = append(all, f.Name+": "+f.Value)
	}
	return strings.Join(all, "\n")
}

func TestHeaderFromFilesAndVariables(t *testing.T) {
	fields := write(t, "fields", "x-key: s3cret\n\n Accept:  text/html \nHost: shop.test\n")
	token := write(t, "token", "abc\n")
	t.Setenv("WIRELAB_TEST_TOKEN", "def")
	for _, c := range []struct {
		options    Options
		want, host string
	}{
		{Options{Headers: []string{"@" + fields, "A: b"}}, "X-Key: s3cret\nAccept: text/html\nA: b", "shop.test"},
		{Options{Bearer: "@" + token}, "Authorization: Bearer abc", ""},
		{Options{Bearer: "$WIRELAB_TEST_TOKEN"}, "Authorization: Bearer def", ""},
		{Options{User: "ann:pw"}, "Authorization: Basic YW5uOnB3", ""},
		{Options{User: "@" + write(t, "user", "ann:pw\r\n")}, "Authorization: Basic YW5uOnB3", ""},
	} {
		r, err := c.options.Compose(web)
		if err != nil || header(r) != c.want || r.Host != c.host {
			t.Errorf("%+v: %+v, %v; want %q, host %q", c.options, r, err, c.want, c.host)
		}
	}
	for _, c := range []struct {
		options Options
		says    string
	}{
		{Options{Headers: []string{"@" + write(t, "bad", "A: b\ns3cret\n")}}, "bad: line 2: want a name, a colon and a value"},
		{Options{Headers: []string{"@nowhere"}}, "-H: open nowhere: no such file"},
		{Options{Headers: []string{"nonsense"}}, `-H: found "nonsense": want a name, a colon and a value`},
		{Options{Bearer: "@nowhere"}, "--bearer: open nowhere: no such file"},
		{Options{Bearer: "@" + write(t, "empty", "\n")}, "want one line with a token or password"},
		{Options{Bearer: "@" + write(t, "broken", "a\nb")}, "want one line with a token or password"},
		{Options{User: "$WIRELAB_TEST_MISSING"}, "--user: the environment variable WIRELAB_TEST_MISSING is not set: export it, or give @FILE"},
		{Options{User: "a:b", Bearer: "c"}, "--user and --bearer: give one of them"},
		{Options{Method: "P T"}, `-m: found "P T": want an HTTP method`},
	} {
		if r, err := c.options.Compose(web); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%+v: %+v, %v; want an error with %q", c.options, r, err, c.says)
		}
	}
}

func TestKindOfBody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ data, kind, want, note string }{
		{"", "", "", ""},
		{`{"a":1}`, "", "application/json", "the body is JSON"},
		{` [1]`, "", "application/json", "the body is JSON"},
		{`{"id":{{.N}}}`, "", "application/json", "the body is JSON"},
		{`{"a":`, "", "", ""},
		{"a=1&b=x%20y&c[]=", "", "application/x-www-form-urlencoded", "the body is a form"},
		{"a=1 b", "", "", ""},
		{"hello", "", "", ""},
		{"12", "", "", ""},
		{`{"a":1}`, "text/plain", "text/plain", ""},
		{`{"a":1,}`, "application/json", "application/json", "the Content-Type is application/json, but the body is not valid JSON (invalid character '}'"},
		{`{"a":1,}`, "application/problem+json; charset=utf-8", "application/problem+json; charset=utf-8", "not valid JSON"},
		{`{"id":{{.N}}}`, "application/json", "application/json", ""},
	} {
		r, err := (&Options{Data: c.data, Kind: c.kind}).Compose(web)
		if err != nil || r.kind() != c.want || !strings.Contains(strings.Join(r.Notes, "\n"), c.note) || (c.note == "") != (len(r.Notes) == 0) {
			t.Errorf("%q with %q: %+v, %v; want %q and %q", c.data, c.kind, r, err, c.want, c.note)
		}
	}
	r, err := (&Options{Data: "{}", Headers: []string{"content-type: text/x"}}).Compose(web)
	if err != nil || header(r) != "Content-Type: text/x" || r.Method != http.MethodPost {
		t.Errorf("a field Content-Type: %+v, %v", r, err)
	}
	if r, err = (&Options{Data: "{}"}).Compose(grpc); err != nil || len(r.Header)+len(r.Notes) > 0 {
		t.Errorf("gRPC: %+v, %v", r, err)
	}
}

func TestForm(t *testing.T) {
	t.Parallel()
	photo := write(t, "cat.png", "\x89PNG")
	note := write(t, "note", "hello")
	r, err := (&Options{Forms: []string{
		"name=Joe", "photo=@" + photo, "raw=@" + note + ";type=text/x;filename=a\"b.txt", "text=<" + note, "meta={};type=application/json",
	}}).Compose(web)
	if err != nil || r.Method != http.MethodPost {
		t.Fatalf("%+v, %v", r, err)
	}
	_, parameters, err := mime.ParseMediaType(r.kind())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for parts := multipart.NewReader(bytes.NewReader(r.Body), parameters["boundary"]); ; {
		part, err := parts.NextPart()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		content, _ := io.ReadAll(part)
		got = append(got, strings.Join([]string{part.FormName(), part.FileName(), part.Header.Get("Content-Type"), string(content)}, "|"))
	}
	want := []string{"name|||Joe", "photo|cat.png|image/png|\x89PNG", "raw|a%22b.txt|text/x|hello", "text|||hello", "meta||application/json|{}"}
	if !slices.Equal(got, want) {
		t.Errorf("parts %q, want %q", got, want)
	}
	for _, c := range []struct {
		options Options
		target  service.Target
		says    string
	}{
		{Options{Forms: []string{"name"}}, web, `--form: found "name": want NAME=VALUE or NAME=@FILE`},
		{Options{Forms: []string{"\x00=b"}}, web, "want a name without control characters"},
		{Options{Forms: []string{"a=@nowhere"}}, web, "--form: open nowhere: no such file"},
		{Options{Forms: []string{"a=b;type=;"}}, web, "want a content type, as in image/png"},
		{Options{Forms: []string{"a=b"}, Data: "x"}, web, "--form and --data: give one of them"},
		{Options{Forms: []string{"a=b"}, Kind: "text/plain"}, web, "--form: it sets the Content-Type"},
		{Options{Forms: []string{"a=b"}}, grpc, "--form: calls of gRPC, Connect and WebSocket have no forms"},
	} {
		if r, err := c.options.Compose(c.target); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %+v, %v; want an error with %q", c.options, r, err, c.says)
		}
	}
}

// A form has the parts that were asked for, whatever their text is.
func FuzzForm(f *testing.F) {
	f.Add("name=Joe")
	f.Add("\x7f=")
	f.Add("meta={};type=application/json;filename=a.json")
	f.Add("a\"\r\n=b;type=text/plain; charset=\"x\"")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "=@") || strings.Contains(text, "=<") {
			t.Skip("files are not read here")
		}
		body, kind, err := form([]string{text})
		if err != nil {
			return
		}
		_, parameters, err := mime.ParseMediaType(kind)
		if err != nil {
			t.Fatal(err)
		}
		parts := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
		if _, err := parts.NextPart(); err != nil {
			t.Fatalf("%q: %v in %q", text, err, body)
		}
		if _, err := parts.NextPart(); err != io.EOF {
			t.Fatalf("%q: more than one part in %q", text, body)
		}
	})
}
