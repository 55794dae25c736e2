// Package route finds the HTTP method and path of an operation: `GET /users/{id}` for GetUser.
//
// An option of the operation in its .proto file sets both, in the style of google.api.http.
// ForMethod finds the option by the operation's full name, so that a stack need not know the
// service. Without the option, the operation is called by POST at its short path: /echo for Echo.
package route

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"wirelab.dev/internal/wire/route/routepb"
)

// A Route holds the HTTP method and path of an operation, and the places of the request's fields.
type Route struct {
	Verb    string
	Path    []Segment
	Success int // HTTP status of a successful answer
	// InBody says that fields outside the path are in the body. Otherwise they are in the query.
	InBody bool
}

// A Segment is the part of a path between two slashes: a fixed text or a field's value.
type Segment struct {
	Text string                       // the fixed text, if In is nil
	In   protoreflect.FieldDescriptor // the field whose value is the segment
}

// ForMethod returns the route of "/package.Service/Operation". It returns an error if the option
// in the .proto file is invalid.
func ForMethod(fullMethod string) (Route, error) {
	service, operation, _ := strings.Cut(strings.TrimPrefix(fullMethod, "/"), "/")
	short := Route{Verb: http.MethodPost, InBody: true, Success: http.StatusOK, Path: []Segment{{Text: ShortPath(operation)[1:]}}}
	// FindDescriptorByName fails if the service is not linked into this program.
	found, _ := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + operation))
	method, ok := found.(protoreflect.MethodDescriptor)
	if !ok || !proto.HasExtension(method.Options(), routepb.E_Http) {
		return short, nil
	}
	written := proto.GetExtension(method.Options(), routepb.E_Http).(*routepb.Route)
	r, err := parse(written, method.Input())
	if err != nil {
		return Route{}, fmt.Errorf("route of %s: %w", fullMethod, err)
	}
	return r, nil
}

// Template returns the path with before and behind around each field name: /users/{id}, for
// instance.
func (r Route) Template(before, behind string) string {
	var path strings.Builder
	for _, segment := range r.Path {
		path.WriteByte('/')
		if segment.In == nil {
			path.WriteString(segment.Text)
			continue
		}
		path.WriteString(before + string(segment.In.Name()) + behind)
	}
	return path.String()
}

// HasInPath reports whether the field is in the path.
func (r Route) HasInPath(field protoreflect.FieldDescriptor) bool {
	return slices.ContainsFunc(r.Path, func(s Segment) bool { return s.In != nil && s.In.Number() == field.Number() })
}

// ShortPath returns the path that a user of curl can type: /echo for Echo, /get-user for GetUser,
// /get-http-info for GetHTTPInfo.
func ShortPath(operation string) string {
	var path strings.Builder
	path.Grow(len(operation) + 4)
	path.WriteByte('/')
	letters := []rune(operation)
	for i, letter := range letters {
		if unicode.IsUpper(letter) && i > 0 {
			previous := letters[i-1]
			endsAcronym := unicode.IsUpper(previous) && i+1 < len(letters) && unicode.IsLower(letters[i+1])
			if unicode.IsLower(previous) || unicode.IsDigit(previous) || endsAcronym {
				path.WriteByte('-')
			}
		}
		path.WriteRune(unicode.ToLower(letter))
	}
	return path.String()
}

var verbs = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

func parse(written *routepb.Route, request protoreflect.MessageDescriptor) (Route, error) {
	r := Route{Verb: written.Verb, InBody: written.Body == "*", Success: http.StatusOK}
	if written.Success != 0 {
		r.Success = int(written.Success)
	}
	switch {
	case !slices.Contains(verbs, r.Verb):
		return r, fmt.Errorf("the option's verb is %q: want one of %s", r.Verb, strings.Join(verbs, ", "))
	case written.Body != "" && !r.InBody:
		return r, fmt.Errorf("the option's body is %q: want * or no body", written.Body)
	case r.InBody && (r.Verb == http.MethodGet || r.Verb == http.MethodDelete):
		return r, fmt.Errorf("the option sets body, but a %s request has no body: leave body out", r.Verb)
	case r.Success < 200 || r.Success > 299:
		return r, fmt.Errorf("the option's success is %d: want 200 to 299", r.Success)
	case !strings.HasPrefix(written.Path, "/"):
		return r, fmt.Errorf("the option's path is %q: want a path that begins with a slash", written.Path)
	}
	for text := range strings.SplitSeq(written.Path[1:], "/") {
		segment := Segment{Text: text}
		if name, ok := strings.CutPrefix(text, "{"); ok {
			name, ok = strings.CutSuffix(name, "}")
			segment = Segment{In: request.Fields().ByName(protoreflect.Name(name))}
			if !ok || segment.In == nil || segment.In.Kind() != protoreflect.StringKind || segment.In.IsList() {
				return r, fmt.Errorf("path %q: %s is not a text field of %s", written.Path, text, request.FullName())
			}
		}
		r.Path = append(r.Path, segment)
	}
	return r, nil
}
