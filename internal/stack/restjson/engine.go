package restjson

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/route"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/tuning"
)

// quiet keeps Gin from printing its routes, once for the whole process: it has
// no other switch.
var quiet = sync.OnceFunc(func() { gin.SetMode(gin.ReleaseMode) })

// bareEngine is Gin without routes.
func bareEngine() *gin.Engine {
	quiet()
	engine := gin.New()
	engine.HandleMethodNotAllowed = true
	engine.UseRawPath = true
	return engine
}

// engineSettings lists what is not Gin's default.
func engineSettings() []tuning.Setting {
	used, library := bareEngine(), gin.New()
	all := []tuning.Setting{
		{Side: tuning.Server, Name: "gin.SetMode", Value: gin.Mode(), Default: gin.DebugMode, Why: "the debug mode prints every route"},
		{Side: tuning.Server, Name: "gin.Logger, gin.Recovery", Value: "none", Default: "both, in gin.Default", Why: "what is measured is the wire, and not a terminal"},
	}
	return append(all, tuning.Differences(tuning.Server, "gin.Engine", used, library, tuning.Reasons{
		"RouterGroup":            tuning.Unlisted,
		"HandleMethodNotAllowed": {Why: "a wrong verb is told from a wrong path"},
		"UseRawPath":             {Why: "a slash in an id is the id's"},
	})...)
}

// newEngine is Gin with a route for each unary method.
func newEngine(methods []*stack.Method, c codec) (http.Handler, error) {
	engine := bareEngine()
	var index []string
	for _, method := range methods {
		if method.Kind != stack.Unary {
			continue
		}
		r, err := route.Of(method.FullName)
		if err != nil {
			return nil, err
		}
		line := r.Verb + " " + r.Template("{", "}")
		if slices.Contains(index, line) { // Gin would panic
			return nil, fmt.Errorf("two operations would both be called by %s: %s is the second", line, method.FullName)
		}
		index = append(index, line)
		resource := &resource{method: method, route: r, codec: c}
		engine.Handle(r.Verb, r.Template(":", ""), resource.serve)
	}
	engine.NoRoute(func(g *gin.Context) {
		refuse(g, http.StatusNotFound, status.Newf(codes.Unimplemented, "there is nothing at %s %s; there is %s", g.Request.Method, g.Request.URL.Path, strings.Join(index, ", ")))
	})
	engine.NoMethod(func(g *gin.Context) {
		refuse(g, http.StatusMethodNotAllowed, status.Newf(codes.Unimplemented, "%s does not take %s; it takes %s", g.Request.URL.Path, g.Request.Method, g.Writer.Header().Get("Allow")))
	})
	return engine, nil
}

// resource answers the calls of one method.
type resource struct {
	method *stack.Method
	route  route.Route
	codec  codec
}

func (r *resource) serve(g *gin.Context) {
	body, ok := r.body(g)
	if !ok {
		return
	}
	unread := false // the handler never saw a request
	answer, err := r.method.Unary.Handler(r.method.Service, g.Request.Context(), func(message any) error {
		err := r.decode(g, body, message)
		unread = err != nil
		return err
	}, nil)
	switch {
	case unread && status.Code(err) == codes.InvalidArgument:
		refuse(g, http.StatusBadRequest, stack.StatusOf(err))
	case unread && status.Code(err) == codes.ResourceExhausted:
		refuse(g, http.StatusRequestEntityTooLarge, stack.StatusOf(err))
	case err != nil:
		st := stack.StatusOf(err)
		refuse(g, httpStatusOf(st.Code()), st)
	default:
		r.reply(g, answer)
	}
}

// body reads the request's, if its route has one. Where it cannot, it has
// answered.
func (r *resource) body(g *gin.Context) (body []byte, ok bool) {
	if !r.route.InBody {
		return nil, true
	}
	if contentType := g.GetHeader("Content-Type"); !isJSON(contentType) {
		refuse(g, http.StatusUnsupportedMediaType, status.Newf(codes.Unimplemented, "%s %s takes %s, not %q", g.Request.Method, g.Request.URL.Path, mediaType, contentType))
		return nil, false
	}
	if g.Request.ContentLength > maxBodyBytes {
		refuse(g, http.StatusRequestEntityTooLarge, stack.StatusOf(errTooLarge(int(g.Request.ContentLength))))
		return nil, false
	}
	body, err := readWhole(g.Writer, g.Request.Body)
	switch {
	case err == nil:
		return body, true
	case status.Code(err) == codes.ResourceExhausted:
		refuse(g, http.StatusRequestEntityTooLarge, stack.StatusOf(err))
	default:
		refuse(g, stack.StatusClientClosed, status.Newf(codes.Canceled, "the request broke off: %v", err))
	}
	return nil, false
}

// decode fills the handler's request from body, path and query.
func (r *resource) decode(g *gin.Context, body []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "rest-json: %T is not a protobuf message", message)
	}
	if r.route.InBody {
		if err := r.codec.unmarshal(body, m); err != nil {
			return status.Errorf(codes.InvalidArgument, "the body is no %s in JSON: %v", m.ProtoReflect().Descriptor().Name(), err)
		}
		if err := checkSize(m, body); err != nil {
			return err
		}
	}
	if err := fill(r.route, m, g.Param, g.Request.URL.Query()); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return nil
}

func (r *resource) reply(g *gin.Context, answer any) {
	body, err := r.codec.encode(answer)
	if err != nil {
		refuse(g, http.StatusInternalServerError, stack.StatusOf(err))
		return
	}
	g.Data(r.route.Success, mediaType, body)
}

// refuse answers with an error.
func refuse(g *gin.Context, httpStatus int, st *status.Status) {
	g.AbortWithStatusJSON(httpStatus, problemOf(st))
}
