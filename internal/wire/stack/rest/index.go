package rest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"wirelab.dev/internal/wire/route"
	"wirelab.dev/internal/wire/stack"
)

// shortPaths maps each short path to its method. Two operations with the same short
// path are an error.
func shortPaths(methods []*stack.Method) (map[string]*stack.Method, error) {
	paths := make(map[string]*stack.Method, len(methods))
	var clashes []error
	for _, method := range methods {
		path := route.ShortPath(method.Name())
		if first, taken := paths[path]; taken {
			clashes = append(clashes, fmt.Errorf("operations %s and %s would both be served at %s", first.FullName, method.FullName, path))
			continue
		}
		paths[path] = method
	}
	return paths, errors.Join(clashes...)
}

// index lists the operations.
func index(methods []*stack.Method) string {
	var list strings.Builder
	last := ""
	for _, method := range methods {
		service := strings.TrimPrefix(strings.TrimSuffix(method.FullName, "/"+method.Name()), "/")
		if service != last {
			fmt.Fprintf(&list, "\n%s\n", service)
			last = service
		}
		fmt.Fprintf(&list, "  POST %-20s %s\n", route.ShortPath(method.Name()), method.Kind)
	}
	return list.String()
}

// serveIndex answers GET /, for browsers and curl without a path.
func serveIndex(w http.ResponseWriter, r *http.Request, list string, methods []*stack.Method) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "wirelab, over %s\n%s", r.Proto, list)
	if len(methods) > 0 {
		fmt.Fprintf(w, "\nMessages are protobuf or JSON, as the Content-Type says. Try\n  %s\n", curlTo(r, methods[0], json))
	}
}

// curlTo returns a curl command that calls a method, with the request's version of
// HTTP.
func curlTo(r *http.Request, method *stack.Method, c *codec) string {
	stream := method.ClientStreams()
	data := "--data-binary @request.bin"
	if c == json && !stream {
		data = "--data '{}'"
	}
	command, scheme := "curl", "http"
	switch {
	case r.TLS != nil:
		command, scheme = "curl --cacert root.pem", "https"
	case r.ProtoMajor == 2:
		command = "curl --http2-prior-knowledge"
	}
	return fmt.Sprintf("%s %s -H 'Content-Type: %s' %s://%s%s", command, data, c.body(stream), scheme, r.Host, route.ShortPath(method.Name()))
}
