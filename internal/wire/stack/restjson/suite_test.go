package restjson

import (
	"errors"
	"testing"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest"
)

func parse(t testing.TB, text string) scenario.Variant {
	t.Helper()
	v, err := scenario.ParseVariant(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSuite(t *testing.T) {
	for name, subject := range map[string]struct {
		variant   string
		lifecycle conn.Lifecycle
		always    bool
	}{
		"http1":           {"rest-json", conn.Kept, true},
		"http1 protojson": {"rest-json:json=protojson", conn.Kept, false},
		"http1 fresh":     {"rest-json", conn.Fresh, false},
		"http2":           {"rest-json:http=2", conn.Kept, false},
		"tls":             {"rest-json:tls=on", conn.Kept, false},
		"http2 tls":       {"rest-json:http=2,tls=on", conn.Kept, true},
		"resumed":         {"rest-json:tls=on", conn.Resumed, false},
		"gin":             {"rest-json:router=gin", conn.Kept, true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := HasGin(t.Context(), nil); OnGin(parse(t, subject.variant)) && errors.Is(err, stack.ErrUnsupported) {
				t.Skip(err) // make check runs this package once more with Gin
			}
			if testing.Short() && !subject.always {
				t.Skip("short: the suite's messages of 15 MiB take long in JSON, under the race detector above all; the full tests run this variant")
			}
			stacktest.Run(t, stacktest.Subject{
				Stack: Stack, Variant: parse(t, subject.variant), Lifecycle: subject.lifecycle,
				Lacks: map[stacktest.Ability]string{
					stacktest.ServiceNames:     "the path is the resource, or the operation alone",
					stacktest.RequestMetadata:  "REST as people write it has no such thing",
					stacktest.ResponseMetadata: "the same",
					stacktest.Deadlines:        "the same",
				},
				Garbage: map[string][]byte{
					"half a request line":    []byte("POST /un"),
					"half a body":            []byte("POST /unary HTTP/1.1\r\nHost: wirelab.test\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"),
					"an impossible length":   []byte("POST /unary HTTP/1.1\r\nHost: wirelab.test\r\nContent-Type: application/json\r\nContent-Length: 99999999999999999999\r\n\r\n"),
					"an oversize length":     []byte("POST /unary HTTP/1.1\r\nHost: wirelab.test\r\nContent-Type: application/json\r\nContent-Length: 9999999999\r\n\r\n"),
					"a body that is no JSON": []byte("POST /unary HTTP/1.1\r\nHost: wirelab.test\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\n{{{"),
				},
			})
		})
	}
}

func TestSecurity(t *testing.T) {
	for _, variant := range []string{"rest-json:tls=on", "rest-json:tls=on,handshakes=2", "rest-json:http=2,tls=on"} {
		t.Run(variant, func(t *testing.T) {
			stacktest.RunSecurity(t, stacktest.Subject{Stack: Stack, Variant: parse(t, variant)})
		})
	}
}

func TestLeaks(t *testing.T) {
	for _, variant := range []string{"rest-json", "rest-json:tls=on", "rest-json:http=2"} {
		t.Run(variant, func(t *testing.T) {
			stacktest.RunLeaks(t, stacktest.Subject{Stack: Stack, Variant: parse(t, variant)})
		})
	}
}
