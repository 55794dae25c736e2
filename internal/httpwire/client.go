package httpwire

import (
	"context"
	"net/http"
)

// Client makes requests, from any number of goroutines.
type Client struct {
	http    http.Client
	carrier carrier
}

// NewClient makes a client. Connections that are kept are open before it
// returns, and what is to be resumed has been obtained; ctx bounds that.
func NewClient(ctx context.Context, plan ClientPlan) (*Client, error) {
	carrier, err := newH3Client(ctx, plan)
	if err != nil {
		return nil, err
	}
	return &Client{carrier: carrier, http: http.Client{
		Transport: carrier,
		// A redirect would turn a POST into a GET elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Do is that of an http.Client. Where every request has a connection of its
// own, that is closed with the response's body.
func (c *Client) Do(request *http.Request) (*http.Response, error) { return c.http.Do(request) }

// Close ends the requests that are running, and every connection.
func (c *Client) Close() error { return c.carrier.Close() }
