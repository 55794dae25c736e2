package held

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"

	"github.com/coder/websocket"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
)

// webSockets opens WebSockets, each on a connection of its own.
type webSockets struct {
	*service.Definition
	client *http.Client
	dialer *conn.Dialer
}

func newWebSockets(plan service.Plan) (*webSockets, error) {
	config, err := plan.TLSConfig()
	if err != nil {
		return nil, err
	}
	via := conn.Opener{Dialer: plan.Dialer, Network: plan.Network, Address: plan.Address, TLS: config}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return via.Open(ctx) }
	return &webSockets{Definition: plan.Definition, dialer: plan.Dialer, client: &http.Client{
		// A refused handshake leaves no connection behind.
		Transport:     &http.Transport{DialContext: dial, DialTLSContext: dial, MaxIdleConnsPerHost: -1, MaxResponseHeaderBytes: 1 << 20},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func (w *webSockets) openPipe(ctx context.Context, request *service.Request, _ pipe) (pipe, opened, error) {
	options := &websocket.DialOptions{HTTPClient: w.client, HTTPHeader: http.Header{}, Host: w.Authority}
	for _, f := range request.Header {
		if strings.EqualFold(f.Name, "Sec-WebSocket-Protocol") {
			for name := range strings.SplitSeq(f.Value, ",") {
				options.Subprotocols = append(options.Subprotocols, strings.TrimSpace(name))
			}
			continue
		}
		options.HTTPHeader.Add(f.Name, f.Value)
	}
	if options.HTTPHeader.Get("User-Agent") == "" {
		options.HTTPHeader.Set("User-Agent", service.UserAgent)
	}
	scheme := "ws"
	if w.TLS != nil {
		scheme = "wss"
	}
	var raw net.Conn
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { raw = got.Conn }})
	c, response, err := websocket.Dial(traced, scheme+"://"+w.Authority+request.Path, options) //nolint:bodyclose // the library closes it
	if err != nil {
		return nil, opened{}, explainHandshake(response, err)
	}
	w.dialer.UsedProtocol("h1")
	c.SetReadLimit(maxMessageBytes)
	p := &webSocket{conn: c, raw: raw, life: ctx, kind: websocket.MessageText}
	if w.Holding.Binary {
		p.kind = websocket.MessageBinary
	}
	info := opened{status: response.StatusCode, header: response.Header}
	if w.Holding.Exchange == service.Receive && len(request.Body) > 0 {
		return p, info, p.send(ctx, request.Body)
	}
	return p, info, nil
}

// explainHandshake says what is wrong with a server's answer to the handshake.
func explainHandshake(response *http.Response, err error) error {
	if wrapped, is := errors.AsType[*url.Error](err); is {
		return wrapped.Err
	}
	if response == nil {
		return err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		text := fmt.Sprintf("the server answered the WebSocket handshake with %d %s: want 101 Switching Protocols", response.StatusCode, http.StatusText(response.StatusCode))
		if to := response.Header.Get("Location"); to != "" {
			text += "; it redirects to " + to
		}
		return failure.WithClass(failure.Application, errors.New(text+": name the path of a WebSocket, and what the server asks for, with -H"))
	}
	text := err.Error()
	if strings.Contains(text, "Sec-WebSocket-Accept") {
		text = fmt.Sprintf("its Sec-WebSocket-Accept is %q, which does not answer the key of the request: a cache or another protocol may be in between", response.Header.Get("Sec-WebSocket-Accept"))
	} else if _, rest, found := strings.Cut(text, "WebSocket protocol violation: "); found {
		text = rest
	}
	return failure.WithClass(failure.WrongProtocol, fmt.Errorf("the server's WebSocket handshake is wrong: %s", text))
}

// webSocket is an open WebSocket. Its library answers pings while it is read.
type webSocket struct {
	conn   *websocket.Conn
	raw    net.Conn // closing it also ends a closing handshake that the server does not answer
	life   context.Context
	kind   websocket.MessageType
	buffer bytes.Buffer
}

func (w *webSocket) send(ctx context.Context, message []byte) error {
	return w.conn.Write(ctx, w.kind, message)
}

func (w *webSocket) receive() ([]byte, error) {
	_, from, err := w.conn.Reader(w.life)
	if err == nil {
		w.buffer.Reset()
		_, err = w.buffer.ReadFrom(from)
	}
	if err != nil {
		return nil, describeClose(err)
	}
	return w.buffer.Bytes(), nil
}

func (w *webSocket) finish() { _ = w.conn.Close(websocket.StatusNormalClosure, "") }

func (w *webSocket) abort() {
	_ = w.raw.Close()
	_ = w.conn.CloseNow()
}

// closeCodes names the codes of RFC 6455, section 7.4.1, and of IANA's registry.
var closeCodes = map[websocket.StatusCode]string{
	websocket.StatusNormalClosure: "normal closure", websocket.StatusGoingAway: "going away",
	websocket.StatusProtocolError: "protocol error", websocket.StatusUnsupportedData: "unsupported data",
	websocket.StatusNoStatusRcvd: "no code given", websocket.StatusInvalidFramePayloadData: "invalid payload",
	websocket.StatusPolicyViolation: "policy violation", websocket.StatusMessageTooBig: "message too big",
	websocket.StatusMandatoryExtension: "extension missing", websocket.StatusInternalError: "internal error",
	websocket.StatusServiceRestart: "service restart", websocket.StatusTryAgainLater: "try again later", websocket.StatusBadGateway: "bad gateway",
}

// describeClose says in words why a WebSocket ended.
func describeClose(err error) error {
	sent, is := errors.AsType[websocket.CloseError](err)
	switch {
	case errors.Is(err, websocket.ErrMessageTooBig):
		return &service.EndError{Reason: fmt.Sprintf("a message has more than %d bytes", maxMessageBytes), Class: failure.FlowControl}
	case !is && errors.Is(err, io.EOF):
		return &service.EndError{Reason: "the connection was closed without a close frame", Class: failure.Closed}
	case !is:
		return err
	}
	name, known := closeCodes[sent.Code]
	if !known {
		name = "a code of the service's own"
	}
	end := &service.EndError{Reason: fmt.Sprintf("close code %d (%s)", sent.Code, name), Class: failure.Application, Detail: sent.Reason}
	switch sent.Code {
	case websocket.StatusNormalClosure, websocket.StatusGoingAway, websocket.StatusNoStatusRcvd, websocket.StatusServiceRestart:
		end.Normal, end.Class = true, failure.Closed
	}
	return end
}
