package httpwire

import (
	"context"
	"errors"
	"fmt"
)

// newH3Client opens HTTP/3's connections.
func newH3Client(context.Context, ClientPlan) (carrier, error) {
	return nil, fmt.Errorf("httpwire: HTTP/3 client: %w", errors.ErrUnsupported)
}

// newH3Server makes HTTP/3's server.
func newH3Server(ServerPlan) (Server, error) {
	return nil, fmt.Errorf("httpwire: HTTP/3 server: %w", errors.ErrUnsupported)
}
