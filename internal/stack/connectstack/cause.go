package connectstack

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
)

// errorKeeper sends connect-go's requests, and keeps their errors: if the context of a
// unary call has ended, connect-go returns only the context's error.
type errorKeeper struct{ next connect.HTTPClient }

// Do implements connect.HTTPClient.
func (r errorKeeper) Do(request *http.Request) (*http.Response, error) {
	response, err := r.next.Do(request)
	if met, wanted := request.Context().Value(errorKey{}).(*error); wanted && err != nil {
		*met = err
	}
	return response, err
}

type errorKey struct{}

// keepError returns a context for a call, and a pointer to where the error of its request
// is stored when the call has returned.
func keepError(ctx context.Context) (calling context.Context, met *error) {
	met = new(error)
	return context.WithValue(ctx, errorKey{}, met), met
}
