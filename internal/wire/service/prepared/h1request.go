package prepared

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/prepared/http1"
)

// An h1Request holds the bytes of a request of HTTP/1.1.
type h1Request struct {
	bytes   []byte
	content http1.Content
	// repeatable means that the request may be sent a second time if a kept connection
	// turns out to be closed (RFC 9110, section 9.2.2).
	repeatable bool
	close      bool // the connection is not used again
}

func encodeHTTP1(d *service.Definition, r *service.Request) (*h1Request, error) {
	if err := checkRequest(d, r); err != nil {
		return nil, err
	}
	encoded := &h1Request{}
	switch r.Method {
	case http.MethodHead:
		encoded.content, encoded.repeatable = http1.NoBody, true
	case http.MethodGet, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		encoded.repeatable = true
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, r.Path, d.Authority)
	agent := false
	for _, f := range r.Header {
		switch http.CanonicalHeaderKey(f.Name) {
		case "Host", "Content-Length", "Transfer-Encoding": // set from the authority and the body
			continue
		case "Connection":
			encoded.close = encoded.close || httpguts.HeaderValuesContainsToken([]string{f.Value}, "close")
		case "User-Agent":
			agent = true
		}
		fmt.Fprintf(&b, "%s: %s\r\n", f.Name, f.Value)
	}
	if !agent {
		fmt.Fprintf(&b, "User-Agent: %s\r\n", service.UserAgent)
	}
	if saysLength(r) {
		fmt.Fprintf(&b, "Content-Length: %s\r\n", strconv.Itoa(len(r.Body)))
	}
	b.WriteString("\r\n")
	b.Write(r.Body)
	encoded.bytes = b.Bytes()
	return encoded, nil
}

// saysLength reports whether a request announces the length of its body: if it has one, or
// if its method usually has one (RFC 9110, section 8.6).
func saysLength(r *service.Request) bool {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		return true
	}
	return len(r.Body) > 0
}

// checkRequest refuses a request whose bytes would be another request on the wire.
func checkRequest(d *service.Definition, r *service.Request) error {
	switch {
	case !httpguts.ValidHeaderFieldName(r.Method):
		return fmt.Errorf("%q is not a method", r.Method)
	case r.Path != "*" && !strings.HasPrefix(r.Path, "/"):
		return fmt.Errorf("the path %q does not begin with /", r.Path)
	case strings.ContainsFunc(r.Path, func(c rune) bool { return c <= ' ' || c == 0x7f }):
		return fmt.Errorf("the path %q contains a space or a control character: write it as %%20", r.Path)
	case !httpguts.ValidHostHeader(d.Authority):
		return fmt.Errorf("%q is not a host", d.Authority)
	}
	for _, f := range r.Header {
		if !httpguts.ValidHeaderFieldName(f.Name) || !httpguts.ValidHeaderFieldValue(f.Value) {
			return fmt.Errorf("the header %q: %q cannot be sent", f.Name, f.Value)
		}
	}
	return nil
}
