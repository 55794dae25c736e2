package service

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want Target
		says string // the target as a URL
	}{
		{"http://127.0.0.1:8080", Target{Wire: HTTP1, Host: "127.0.0.1", Port: "8080", Path: "/"}, "http://127.0.0.1:8080/"},
		{"localhost:8080/a?b=c", Target{Wire: HTTP1, Host: "localhost", Port: "8080", Path: "/a?b=c"}, "http://localhost:8080/a?b=c"},
		{"https://example.com/x", Target{Wire: HTTP1, Secure: true, Host: "example.com", Port: "443", Path: "/x"}, "https://example.com/x"},
		{"http://[::1]/", Target{Wire: HTTP1, Host: "::1", Port: "80", Path: "/"}, "http://[::1]/"},
		{"grpc://[::1]:50051/a.B/C", Target{Wire: GRPC, Host: "::1", Port: "50051", Path: "/a.B/C"}, "grpc://[::1]:50051/a.B/C"},
		{"grpcs://example.com/a.B/C", Target{Wire: GRPC, Secure: true, Host: "example.com", Port: "443", Path: "/a.B/C"}, "grpcs://example.com:443/a.B/C"},
		{"connect://h:1/a.B/C", Target{Wire: HTTP1, Host: "h", Port: "1", Path: "/a.B/C", Connect: true}, "connect://h:1/a.B/C"},
		{"connects://h/api/a.B/C", Target{Wire: HTTP1, Secure: true, Host: "h", Port: "443", Path: "/api/a.B/C", Connect: true}, "connects://h/api/a.B/C"},
		{"grpc://h:1", Target{Wire: GRPC, Host: "h", Port: "1"}, "grpc://h:1"},
		{"http://h/{{.Row.a}}?b={{ .N }}", Target{Wire: HTTP1, Host: "h", Port: "80", Path: "/{{.Row.a}}?b={{ .N }}"}, "http://h/{{.Row.a}}?b={{ .N }}"},
		{"h:1?b={{.N}}", Target{Wire: HTTP1, Host: "h", Port: "1", Path: "/?b={{.N}}"}, "http://h:1/?b={{.N}}"},
		{"unix:/run/x.sock", Target{Wire: GRPC, Host: "localhost", Socket: "/run/x.sock"}, "unix:/run/x.sock"},
		{"unix:///run/x.sock", Target{Wire: GRPC, Host: "localhost", Socket: "/run/x.sock"}, "unix:/run/x.sock"},
	} {
		got, err := ParseTarget(c.text, "http")
		if err != nil || !reflect.DeepEqual(got, c.want) || got.String() != c.says {
			t.Errorf("%s: %+v (%s), %v; want %+v (%s)", c.text, got, got, err, c.want, c.says)
		}
	}
}

func TestBadTargets(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                        "no host",
		"ftp://h/":                `the scheme is "ftp"`,
		"http://":                 "no host",
		"http://h:99999/":         `the port is "99999"`,
		"http://h:0x/":            "invalid port",
		"grpc://h/a.B/C":          "gRPC has no default port",
		"grpc://h:1/a.B":          "want /pkg.Service/Method",
		"grpc://h:1/a.B/C/d":      "want /pkg.Service/Method",
		"connect://h:1/":          "want /pkg.Service/Method",
		"unix:":                   "names no socket",
		"http://a b/":             "want a URL",
		"http://[::1/":            "want a URL",
		"http://h:80 80/":         "want a URL",
		"http://h/%zz":            "want a URL",
		"http://user:pw@:80/path": "no host",
	} {
		if got, err := ParseTarget(text, "http"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %+v, %v; want an error that says %q", text, got, err, says)
		}
	}
}

// What is read is written as what can be read, and means the same.
func FuzzParseTarget(f *testing.F) {
	for _, text := range []string{"http://h/", "https://[::1]:8443/a?b", "grpc://h:1/a.B/C", "unix:/x", "h:1", "http://u:p@h/"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, err := ParseTarget(text, "http")
		if err != nil {
			return
		}
		first.User = nil // which is no part of what is shown
		again, err := ParseTarget(first.String(), "http")
		if err != nil || first.Socket == "" && !reflect.DeepEqual(again, first) {
			t.Fatalf("%q: read as %+v, written as %s, read again as %+v, %v", text, first, first, again, err)
		}
	})
}
