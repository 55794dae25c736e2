package reach

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"wirelab.dev/internal/wire/service"
)

// mostRedirects bounds the redirects that the first call follows, as browsers and curl do.
const mostRedirects = 10

// A redirectError is an answer that leads to where this load must not go by itself.
type redirectError struct{ text string }

func (e *redirectError) Error() string { return e.text }

// follow makes the first call. Where its answer leads elsewhere on the same server, that is
// called, and loaded: the answers to be measured are seldom redirects. Where --expect says what
// a right answer is, a redirect may be just that, and stays.
func (f *First) follow(ctx context.Context, client service.Client, answer *service.Answer) error {
	d, request := f.Definition, f.Request
	for followed := 0; ; followed++ {
		if err := client.Call(ctx, request, answer); err != nil {
			return err
		}
		if d.Wire.IsGRPC() || len(d.Expect) > 0 || !leadsElsewhere(answer) {
			if followed > 0 {
				f.note("first call: a redirect leads to %s %s: that is loaded", request.Method, request.Path)
			}
			return nil
		}
		to, err := leadsTo(d, answer)
		switch {
		case err != nil:
			return err
		case len(d.Requests) > 1 || d.Feed != nil:
			f.note("first call: %d, leads to %s; of several requests none is led elsewhere: the window counts them by status", answer.Status, to)
			return nil
		case followed == mostRedirects:
			return &redirectError{fmt.Sprintf("it leads elsewhere more than %d times, the last time to %s: name the URL that answers itself", mostRedirects, to)}
		}
		redirect(request, to, answer.Status)
	}
}

// leadsElsewhere reports whether an answer names another URL to ask (RFC 9110, section 15.4).
func leadsElsewhere(answer *service.Answer) bool {
	switch answer.Status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return answer.Header.Get("Location") != ""
	}
	return false
}

// leadsTo returns the URL to which an answer leads, if it is on the same server.
func leadsTo(d *service.Definition, answer *service.Answer) (*url.URL, error) {
	here := &url.URL{Scheme: scheme(d, d.TLS != nil), Host: d.Authority}
	asked, err := here.Parse(d.Requests[0].Path)
	if err != nil {
		return nil, err
	}
	location := answer.Header.Get("Location")
	to, err := asked.Parse(location)
	if err != nil {
		return nil, &redirectError{fmt.Sprintf("it answers %d, and leads to %q, which is no URL", answer.Status, location)}
	}
	address := withPort(&url.URL{Scheme: here.Scheme, Host: d.Address})
	if to.Scheme != here.Scheme || withPort(to) != withPort(here) && withPort(to) != address {
		return nil, &redirectError{fmt.Sprintf("it answers %d, and leads to %s: that is another server, which is not loaded unless you name it: wirelab load '%s'", answer.Status, to, to)}
	}
	return to, nil
}

// withPort returns the host of a URL with its port, or with the usual one.
func withPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// redirect changes the request to the one that an answer asks for. As in browsers, POST becomes
// GET, unless the status says that the method stays.
func redirect(request *service.Request, to *url.URL, status int) {
	request.Path = to.RequestURI()
	stays := status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect
	if stays || request.Method == http.MethodGet || request.Method == http.MethodHead {
		return
	}
	request.Method, request.Body = http.MethodGet, nil
	var kept []service.Field
	for _, f := range request.Header {
		if f.Name != "Content-Type" {
			kept = append(kept, f)
		}
	}
	request.Header = kept
}
