package connectstack

import (
	"net/http"

	"connectrpc.com/connect"

	"wirelab.dev/internal/wire/stack"
)

// newHandler serves every operation at its full name, and health checks and reflection,
// which foreign clients use. Both protocols read 404 as Unimplemented.
func newHandler(methods *stack.Methods) (http.Handler, error) {
	stack.RegisterHealthAndReflection(methods)
	options := settings().Server.Options()
	handlers := map[string]http.Handler{} // by path; http.ServeMux would search longer
	for _, method := range methods.All() {
		if method.Unary != nil {
			handlers[method.FullName] = connect.NewUnaryHandler(method.FullName, serveUnary(method), options...)
		} else {
			handlers[method.FullName] = connect.NewBidiStreamHandler(method.FullName, serveStream(method), options...)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler, has := handlers[r.URL.Path]
		if !has {
			http.NotFound(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	}), nil
}
