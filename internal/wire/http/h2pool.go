package httpwire

import (
	"context"
	"net/http"

	"wirelab.dev/internal/wire/conn"
)

// h2Transports has a pool of net/http's own for each connection. Unlike pool it sends a
// request again if the server ended the connection before it began the request. Some
// proxies end their connections after some number of requests.
type h2Transports struct {
	*tcpClient
	all conn.Turns[*http.Transport]
}

func newH2Transports(ctx context.Context, client *tcpClient) (*h2Transports, error) {
	size := max(client.plan.Connections, 1)
	ahead, err := conn.OpenAhead(ctx, size, client.dial)
	if err != nil {
		return nil, err
	}
	p := &h2Transports{tcpClient: client}
	for range size {
		one := client.newTransport(ahead.Dial) // clones would share memory
		one.MaxConnsPerHost = 1
		p.all.All = append(p.all.All, one)
	}
	return p, nil
}

// RoundTrip implements http.RoundTripper.
func (p *h2Transports) RoundTrip(request *http.Request) (*http.Response, error) {
	return p.all.Next().RoundTrip(request)
}
