// Package reach makes the first call to a service, before it is loaded. If that fails, it says
// what listens at the address, and what to do about it.
//
// It must not know how calls are measured.
package reach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/base/expect"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/journey"
	"wirelab.dev/internal/wire/service/library"
)

// UsualLimit bounds a first call for which the user sets no limit.
const UsualLimit = 4 * time.Second

// A First makes the first call to a service, or one round of each kind of its users.
type First struct {
	Definition *service.Definition
	Request    *service.Request // the request to call; a redirect changes it
	Script     *journey.Script  // the users' journey; nil: one request is called
	Seed       uint64           // seed of the users' random values
	Limit      time.Duration    // the limit of a call; 0: UsualLimit
	Notes      io.Writer        // where First writes a line about each answer
}

// Try makes the call, and notes the answer. After an error the service must not be loaded.
func (f *First) Try(ctx context.Context) error {
	if f.Limit <= 0 {
		f.Limit = UsualLimit
	}
	d := f.Definition
	opening, cancel := context.WithTimeout(ctx, f.Limit)
	defer cancel()
	found := LookMeanwhile(ctx, d.Network, d.Address)
	defer found.Stop()
	begin := time.Now()
	client, err := library.Open(opening, service.Plan{Definition: d, Connections: 1, Callers: 1, Keep: true, Varied: f.Script != nil, Dialer: &conn.Dialer{}})
	if err != nil {
		return DescribeFailure(d, err, found.Result(), f.Limit)
	}
	defer client.Close()
	if f.Script != nil {
		return f.rounds(ctx, client)
	}
	var answer service.Answer
	sent := time.Now()
	err = f.follow(opening, client, &answer)
	if elsewhere, is := errors.AsType[*redirectError](err); is {
		return fmt.Errorf("%s: %w", Name(d), elsewhere)
	}
	if err == nil && speaksNoGRPC(d, &answer) {
		err = fmt.Errorf("%w: %s", errNoGRPC, answer.Message)
	}
	if err != nil {
		return DescribeFailure(d, err, found.Result(), f.Limit)
	}
	if answer.Status == http.StatusBadRequest && d.TLS == nil && !d.Wire.IsGRPC() {
		if there := LookAt(opening, d.Address); there.TLS {
			return DescribeFailure(d, errTLSOnly, there, f.Limit)
		}
	}
	ended := time.Now()
	status := (&service.StatusError{GRPC: d.Wire.IsGRPC(), Status: answer.Status, Message: answer.Message}).Said()
	f.note("first call: %s, %d bytes, %v", status, answer.Bytes, ended.Sub(begin).Round(10*time.Microsecond))
	return f.meetExpectations(answer.Seen(ended.Sub(sent)))
}

func (f *First) note(format string, values ...any) { fmt.Fprintf(f.Notes, format+"\n", values...) }

// TryConnection opens a connection to a service. Its error says more than grpc-go's.
func TryConnection(ctx context.Context, d *service.Definition) error {
	ctx, cancel := context.WithTimeout(ctx, DescribeAtMost)
	defer cancel()
	client, err := library.Open(ctx, service.Plan{Definition: d, Connections: 1, Callers: 1, Dialer: &conn.Dialer{}})
	if err != nil {
		return err
	}
	return client.Close()
}

// speaksNoGRPC reports whether an answer shows that the server does not speak gRPC. Unavailable
// does not show it: a proxy that finds no server may have sent it.
func speaksNoGRPC(d *service.Definition, answer *service.Answer) bool {
	if !d.Wire.IsGRPC() || len(d.Expect) > 0 || codes.Code(answer.Status) == codes.Unavailable {
		return false
	}
	return strings.Contains(answer.Message, "unexpected HTTP status") || strings.Contains(answer.Message, "response with content-type")
}

// meetExpectations checks the first answer. A condition on its latency may be met by the next
// answer, and does not stop the load.
func (f *First) meetExpectations(answer expect.Answer) error {
	d := f.Definition
	all, err := d.Expectations()
	if err != nil {
		return err
	}
	if answer, err = all.Readable(answer); err != nil {
		return err
	}
	look := expect.NewLook(d.Wire.Kind())
	look.At(answer)
	for _, text := range d.Expect {
		condition, err := expect.Parse(text, d.Wire.Kind())
		if err != nil {
			return err
		}
		unmet, is := errors.AsType[*expect.Unmet](condition.Check(look))
		switch {
		case !is:
		case condition.Uses().Latency:
			f.note("note: the first answer does not meet --expect %s: found %s", text, unmet.Found)
		default:
			return fmt.Errorf("--expect %s: the first answer does not meet it: found %s: nothing was loaded; check the condition, and the service", text, unmet.Found)
		}
	}
	return nil
}

// rounds goes one round of each kind of users. A failure in one keeps the load from starting.
func (f *First) rounds(ctx context.Context, client service.Client) error {
	d := f.Definition
	expected, err := d.Expectations()
	if err != nil {
		return err
	}
	for i, kind := range f.Script.Kinds() {
		source := f.Script.Source(journey.User{Client: i, Clients: 1, Kind: i, Seed: f.Seed, Header: d.Requests[0].Header})
		round := firstRound{First: f, kind: kind, source: source, caller: d.NewCaller(client, source)}
		round.caller.Expect(expected, f.Seed)
		if err := round.walk(ctx, client); err != nil {
			return fmt.Errorf("%s: %w: nothing was loaded", Name(d), err)
		}
	}
	return nil
}

// A firstRound is the first round of a kind of users.
type firstRound struct {
	*First
	kind   string
	source *journey.Source
	caller *service.Caller
}

func (r *firstRound) walk(ctx context.Context, client service.Client) error {
	first, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()
	if err := r.source.Begin(first, client); err != nil {
		return fmt.Errorf("the first %s: %w", r.kind, nameCondition(err))
	}
	for !r.source.RoundEnded() {
		err := r.call(ctx)
		if unmet, is := errors.AsType[*expect.Unmet](err); is && isAboutLatency(unmet) {
			r.note("note: the first round: %s does not meet %s: %v", r.caller.Name(), unmet.Condition, unmet)
			return nil // the next may be sooner
		}
		if err != nil {
			return fmt.Errorf("the first round: %s: %w", r.caller.Name(), nameCondition(err))
		}
	}
	return nil
}

func (r *firstRound) call(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()
	sent := time.Now()
	err := r.caller.Call(ctx)
	took := time.Since(sent)
	if status, answered := r.caller.Status(); answered {
		r.note("first round: %s: %s, %v", r.caller.Name(), (&service.StatusError{Status: status}).Said(), took.Round(10*time.Microsecond))
	}
	if err != nil {
		return err
	}
	return r.caller.Check()
}

func isAboutLatency(unmet *expect.Unmet) bool {
	condition, err := expect.Parse(unmet.Condition, expect.HTTP)
	return err == nil && condition.Uses().Latency
}

// nameCondition adds to an error the condition that an answer does not meet.
func nameCondition(err error) error {
	if unmet, is := errors.AsType[*expect.Unmet](err); is {
		return fmt.Errorf("%s: %w", unmet.Condition, err)
	}
	return err
}

// mostRedirects bounds the redirects that the first call follows, as browsers and curl do.
const mostRedirects = 10

// A redirectError describes an answer that redirects to a place that must not be loaded.
type redirectError struct{ text string }

func (e *redirectError) Error() string { return e.text }

// follow makes the first call. It follows redirects on the same server, and the last URL is
// loaded. It follows none if --expect is set: a redirect may then be the right answer.
func (f *First) follow(ctx context.Context, client service.Client, answer *service.Answer) error {
	d, request := f.Definition, f.Request
	redirects := []int{ // RFC 9110, section 15.4
		http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
	}
	for followed := 0; ; followed++ {
		if err := client.Call(ctx, request, answer); err != nil {
			return err
		}
		if d.Wire.IsGRPC() || len(d.Expect) > 0 || !slices.Contains(redirects, answer.Status) || answer.Header.Get("Location") == "" {
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
			f.note("first call: %d, leads to %s; with several requests redirects are not followed: the window counts them by status", answer.Status, to)
			return nil
		case followed == mostRedirects:
			return &redirectError{fmt.Sprintf("it redirects more than %d times, the last time to %s: name the URL that answers without a redirect", mostRedirects, to)}
		}
		redirect(request, to, answer.Status)
	}
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
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))
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
	request.Header = slices.DeleteFunc(slices.Clone(request.Header), func(f service.Field) bool { return f.Name == "Content-Type" })
}
