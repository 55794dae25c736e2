package restjson

import (
	"testing"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/stack/stacktest"
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
		lifecycle stack.Lifecycle
	}{
		"http1":           {"rest-json", stack.Kept},
		"http1 protojson": {"rest-json:json=protojson", stack.Kept},
		"http1 fresh":     {"rest-json", stack.Fresh},
		"http2":           {"rest-json:http=2", stack.Kept},
		"tls":             {"rest-json:tls=on", stack.Kept},
		"http2 tls":       {"rest-json:http=2,tls=on", stack.Kept},
		"resumed":         {"rest-json:tls=on", stack.Resumed},
	} {
		t.Run(name, func(t *testing.T) {
			stacktest.Run(t, stacktest.Subject{
				Stack: Stack{}, Variant: parse(t, subject.variant), Lifecycle: subject.lifecycle,
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
