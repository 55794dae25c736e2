package restjson

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/wire/route"
	"wirelab.dev/internal/wire/stack"
	rpccall "wirelab.dev/rpc/call"
)

// router builds a handler from the routes of the unary methods. Every router stores the fields of
// a path in http.Request.PathValue.
type router func(index) (http.Handler, error)

// index lists a server's resources, one for each unary method.
type index []*resource

func newIndex(methods []*stack.Method, c codec) (index, error) {
	var all index
	var lines []string
	for _, method := range methods {
		if method.Kind != stack.Unary {
			continue
		}
		r, err := route.ForMethod(method.FullName)
		if err != nil {
			return nil, err
		}
		line := routeLine(r)
		if slices.Contains(lines, line) { // a router would panic
			return nil, fmt.Errorf("two operations have the route %s, and %s is the second: change one of their routes", line, method.FullName)
		}
		lines = append(lines, line)
		all = append(all, &resource{method: method, route: r, codec: c})
	}
	return all, nil
}

func routeLine(r route.Route) string { return r.Verb + " " + r.Template("{", "}") }

func (x index) notFound(w http.ResponseWriter, request *http.Request) {
	lines := lists.Map(x, func(r *resource) string { return routeLine(r.route) })
	sendError(w, http.StatusNotFound, status.Newf(codes.Unimplemented, "no resource for %s %s; this server has %s", request.Method, request.URL.Path, strings.Join(lines, ", ")))
}

// notAllowed answers a request if the path's resource does not support its HTTP method.
func notAllowed(w http.ResponseWriter, request *http.Request, verbs string) {
	w.Header().Set("Allow", verbs)
	sendError(w, http.StatusMethodNotAllowed, status.Newf(codes.Unimplemented, "%s does not support the method %s; use %s", request.URL.Path, request.Method, verbs))
}

func newMux(routes index) (http.Handler, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("/", routes.notFound)
	verbs := map[string][]string{}
	for _, r := range routes {
		template := r.route.Template("{", "}")
		mux.Handle(r.route.Verb+" "+template, r)
		verbs[template] = append(verbs[template], r.route.Verb)
	}
	for template, taken := range verbs {
		allowed := strings.Join(taken, ", ")
		mux.HandleFunc(template, func(w http.ResponseWriter, request *http.Request) { notAllowed(w, request, allowed) })
	}
	return mux, nil
}

type resource struct {
	method *stack.Method
	route  route.Route
	codec  codec
}

func (r *resource) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, ok := r.readBody(w, request)
	if !ok {
		return
	}
	unread := false // whether decoding the request failed
	answer, err := r.method.Unary.Handler(r.method.Service, request.Context(), func(message any) error {
		err := r.decode(request, body, message)
		unread = err != nil
		return err
	}, nil)
	switch {
	case unread && status.Code(err) == codes.InvalidArgument:
		sendError(w, http.StatusBadRequest, rpccall.StatusOf(err))
	case unread && status.Code(err) == codes.ResourceExhausted:
		sendError(w, http.StatusRequestEntityTooLarge, rpccall.StatusOf(err))
	case err != nil:
		st := rpccall.StatusOf(err)
		sendError(w, httpStatusOf(st.Code()), st)
	default:
		r.reply(w, answer)
	}
}

// readBody reads the request's body if the route has one. On failure it answers with the error.
func (r *resource) readBody(w http.ResponseWriter, request *http.Request) (body []byte, ok bool) {
	if !r.route.InBody {
		return nil, true
	}
	if contentType := request.Header.Get("Content-Type"); !stack.IsMedia(contentType, mediaType) {
		sendError(w, http.StatusUnsupportedMediaType, status.Newf(codes.Unimplemented, "%s %s needs the content type %s, but the request has %q", request.Method, request.URL.Path, mediaType, contentType))
		return nil, false
	}
	if request.ContentLength > maxBodyBytes {
		sendError(w, http.StatusRequestEntityTooLarge, rpccall.StatusOf(errTooLarge(request.ContentLength)))
		return nil, false
	}
	body, err := readWhole(w, request.Body)
	switch {
	case err == nil:
		return body, true
	case status.Code(err) == codes.ResourceExhausted:
		sendError(w, http.StatusRequestEntityTooLarge, rpccall.StatusOf(err))
	default:
		sendError(w, stack.StatusClientClosed, status.Newf(codes.Canceled, "the client stopped in the middle of the request: %v", err))
	}
	return nil, false
}

func (r *resource) decode(request *http.Request, body []byte, message any) error {
	m, err := stack.ProtoMessage(name, message)
	if err != nil {
		return err
	}
	if r.route.InBody {
		if err := r.codec.decode(body, m, codes.InvalidArgument); err != nil {
			return err
		}
	}
	if err := fillRequest(r.route, m, request.PathValue, request.URL.Query()); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return nil
}

func (r *resource) reply(w http.ResponseWriter, answer any) {
	body, err := r.codec.encode(answer)
	if err != nil {
		sendError(w, http.StatusInternalServerError, rpccall.StatusOf(err))
		return
	}
	stack.AnswerHTTP(w, r.route.Success, mediaType, body)
}

func sendError(w http.ResponseWriter, httpStatus int, st *status.Status) {
	body, err := json.Marshal(problemOf(st))
	if err != nil { // cannot happen: protojson made the JSON
		httpStatus, body = http.StatusInternalServerError, nil
	}
	stack.AnswerHTTP(w, httpStatus, mediaType, body)
}
