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

// h1Request is a request of HTTP/1.1 as it goes out.
type h1Request struct {
	bytes   []byte
	content http1.Content
	// again says that it may be sent a second time where a kept connection turns out to
	// be closed (RFC 9110, section 9.2.2).
	again bool
	close bool // the connection is not used again
}

func encodeHTTP1(d *service.Definition, r *service.Request) (*h1Request, error) {
	if err := checkRequest(d, r); err != nil {
		return nil, err
	}
	encoded := &h1Request{}
	switch r.Method {
	case http.MethodHead:
		encoded.content, encoded.again = http1.NoBody, true
	case http.MethodGet, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		encoded.again = true
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, r.Path, d.Authority)
	agent := false
	for _, f := range r.Header {
		switch http.CanonicalHeaderKey(f.Name) {
		case "Host", "Content-Length", "Transfer-Encoding": // said by the authority and the body
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

// saysLength reports whether a request tells the length of its body: where it has one, or
// where one is usual (RFC 9110, section 8.6).
func saysLength(r *service.Request) bool {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		return true
	}
	return len(r.Body) > 0
}

// checkRequest refuses what would be another request on the wire.
func checkRequest(d *service.Definition, r *service.Request) error {
	switch {
	case !httpguts.ValidHeaderFieldName(r.Method):
		return fmt.Errorf("the method %q is none", r.Method)
	case r.Path != "*" && !strings.HasPrefix(r.Path, "/"):
		return fmt.Errorf("the path %q does not begin with /", r.Path)
	case strings.ContainsFunc(r.Path, func(c rune) bool { return c <= ' ' || c == 0x7f }):
		return fmt.Errorf("the path %q holds a space or a control character: write it as %%20", r.Path)
	case !httpguts.ValidHostHeader(d.Authority):
		return fmt.Errorf("the host %q is none", d.Authority)
	}
	for _, f := range r.Header {
		if !httpguts.ValidHeaderFieldName(f.Name) || !httpguts.ValidHeaderFieldValue(f.Value) {
			return fmt.Errorf("the header %q: %q cannot be sent", f.Name, f.Value)
		}
	}
	return nil
}
