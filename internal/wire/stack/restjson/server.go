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

// index lists the resources of a server, one for each unary method.
type index []*resource

func newIndex(methods []*stack.Method, c codec) (index, error) {
	var all index
	var lines []string
	for _, method := range methods {
		if method.Kind != stack.Unary {
			continue
		}
		r, err := route.Of(method.FullName)
		if err != nil {
			return nil, err
		}
		line := lineOf(r)
		if slices.Contains(lines, line) { // routers panic
			return nil, fmt.Errorf("two operations have the route %s; %s is the second", line, method.FullName)
		}
		lines = append(lines, line)
		all = append(all, &resource{method: method, route: r, codec: c})
	}
	return all, nil
}

func lineOf(r route.Route) string { return r.Verb + " " + r.Template("{", "}") }

// notFound answers a request whose path names no resource.
func (x index) notFound(w http.ResponseWriter, request *http.Request) {
	lines := lists.Map(x, func(r *resource) string { return lineOf(r.route) })
	refuse(w, http.StatusNotFound, status.Newf(codes.Unimplemented, "%s %s: no such resource; this server has %s", request.Method, request.URL.Path, strings.Join(lines, ", ")))
}

// notAllowed answers a request whose path names a resource that takes other verbs.
func notAllowed(w http.ResponseWriter, request *http.Request, verbs string) {
	w.Header().Set("Allow", verbs)
	refuse(w, http.StatusMethodNotAllowed, status.Newf(codes.Unimplemented, "%s does not take %s; it takes %s", request.URL.Path, request.Method, verbs))
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
	body, ok := r.body(w, request)
	if !ok {
		return
	}
	unread := false // the handler has decoded no request
	answer, err := r.method.Unary.Handler(r.method.Service, request.Context(), func(message any) error {
		err := r.decode(request, body, message)
		unread = err != nil
		return err
	}, nil)
	switch {
	case unread && status.Code(err) == codes.InvalidArgument:
		refuse(w, http.StatusBadRequest, rpccall.StatusOf(err))
	case unread && status.Code(err) == codes.ResourceExhausted:
		refuse(w, http.StatusRequestEntityTooLarge, rpccall.StatusOf(err))
	case err != nil:
		st := rpccall.StatusOf(err)
		refuse(w, httpStatusOf(st.Code()), st)
	default:
		r.reply(w, answer)
	}
}

// body reads the request's body if its route has one, or answers the request with the error.
func (r *resource) body(w http.ResponseWriter, request *http.Request) (body []byte, ok bool) {
	if !r.route.InBody {
		return nil, true
	}
	if contentType := request.Header.Get("Content-Type"); !stack.IsMedia(contentType, mediaType) {
		refuse(w, http.StatusUnsupportedMediaType, status.Newf(codes.Unimplemented, "%s %s takes %s, not %q", request.Method, request.URL.Path, mediaType, contentType))
		return nil, false
	}
	if request.ContentLength > maxBodyBytes {
		refuse(w, http.StatusRequestEntityTooLarge, rpccall.StatusOf(errTooLarge(request.ContentLength)))
		return nil, false
	}
	body, err := readWhole(w, request.Body)
	switch {
	case err == nil:
		return body, true
	case status.Code(err) == codes.ResourceExhausted:
		refuse(w, http.StatusRequestEntityTooLarge, rpccall.StatusOf(err))
	default:
		refuse(w, stack.StatusClientClosed, status.Newf(codes.Canceled, "the request broke off: %v", err))
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
	if err := fill(r.route, m, request.PathValue, request.URL.Query()); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return nil
}

func (r *resource) reply(w http.ResponseWriter, answer any) {
	body, err := r.codec.encode(answer)
	if err != nil {
		refuse(w, http.StatusInternalServerError, rpccall.StatusOf(err))
		return
	}
	stack.AnswerHTTP(w, r.route.Success, mediaType, body)
}

func refuse(w http.ResponseWriter, httpStatus int, st *status.Status) {
	body, err := json.Marshal(problemOf(st))
	if err != nil { // cannot happen: a detail's JSON comes from protojson
		httpStatus, body = http.StatusInternalServerError, nil
	}
	stack.AnswerHTTP(w, httpStatus, mediaType, body)
}
