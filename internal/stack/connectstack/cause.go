package connectstack

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
)

// remembering posts connect-go's requests, and keeps what they meet: of the error
// of a unary call whose context has ended, connect-go leaves the context's own.
type remembering struct{ next connect.HTTPClient }

// Do implements connect.HTTPClient.
func (r remembering) Do(request *http.Request) (*http.Response, error) {
	response, err := r.next.Do(request)
	if met, wanted := request.Context().Value(metKey{}).(*error); wanted && err != nil {
		*met = err
	}
	return response, err
}

type metKey struct{}

// remember is the context of a call, and where the error of its request will be
// when the call has returned.
func remember(ctx context.Context) (calling context.Context, met *error) {
	met = new(error)
	return context.WithValue(ctx, metKey{}, met), met
}
