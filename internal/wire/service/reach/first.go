// Package reach makes the first call to a service before the load starts. If the call fails, the
// package finds out what listens on the address, and says what the user can do.
//
// This package must not know how calls are measured.
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
	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/catalog"
	"wirelab.dev/internal/wire/service/feed"
	"wirelab.dev/internal/wire/service/journey"
	"wirelab.dev/internal/wire/service/library"
)

// DefaultLimit limits a first call if the user sets no limit.
const DefaultLimit = 4 * time.Second

// A FirstCall makes the first call to a service. If Script is set, it makes one round of each kind
// of user instead.
type FirstCall struct {
	Definition *service.Definition
	Request    *service.Request // the request to send; a redirect changes its URL
	Script     *journey.Script  // the users' journey; nil means send Request
	Seed       uint64           // seed of the users' random choices
	Limit      time.Duration    // time limit of a call; 0 means DefaultLimit
	Notes      io.Writer        // receives a line about each answer
	// Fixed says that the requests must not change. A redirect is then an error.
	Fixed bool
	// Whole says that an answer is a whole even if it is a stream of events. Otherwise the load of
	// such an answer holds streams.
	Whole bool
}

// FirstRequest returns the first request of a definition's load.
func FirstRequest(d *service.Definition, seed uint64) (*service.Request, error) {
	switch {
	case len(d.Requests) == 0:
		return nil, errors.New("the definition of the service has no request")
	case d.Feed == nil:
		return &d.Requests[0], nil
	}
	if err := feed.Check(d.Feed); err != nil {
		return nil, err
	}
	parsed, err := feed.Parse(d.Feed)
	if err != nil {
		return nil, err
	}
	return parsed.Source(service.Share{Of: 1, Seed: seed}).Next()
}

// Try makes the call and writes a line about the answer. If Try fails, do not start the load.
func (f *FirstCall) Try(ctx context.Context) error {
	if f.Limit <= 0 {
		f.Limit = DefaultLimit
	}
	var failed []string
	addresses := f.Definition.Addressed()
	for _, address := range addresses {
		f.Definition.Address = address
		err := f.tryAddress(ctx)
		if err == nil || len(addresses) == 1 || !failure.IsUnreached(err) {
			return err
		}
		failed = append(failed, address+": "+string(failure.Of(err)))
	}
	return fmt.Errorf("none of the service's %d addresses accepts a connection (%s): start the servers, or name their addresses with --resolve", len(addresses), strings.Join(failed, ", "))
}

// tryAddress makes the call at the definition's address.
func (f *FirstCall) tryAddress(ctx context.Context) error {
	d := f.Definition
	opening, cancel := context.WithTimeout(ctx, f.Limit)
	defer cancel()
	found := ProbeIfSlow(ctx, d.Network, d.Address)
	defer found.Stop()
	begin := time.Now()
	if d.Holding != nil {
		return f.tryStream(opening, found)
	}
	alone := *d
	alone.Addresses = nil
	client, err := catalog.Open(opening, service.Plan{
		Definition: &alone, Connections: 1, Callers: 1, Keep: true, Probe: !f.Whole && f.Script == nil, Varied: f.Script != nil, Dialer: &conn.Dialer{},
	})
	if err != nil {
		return DescribeFailure(d, err, found.Result(), f.Limit)
	}
	defer client.Close()
	if f.Script != nil {
		return f.firstRounds(ctx, client)
	}
	var answer service.Answer
	sent := time.Now()
	err = f.followRedirects(opening, client, &answer)
	if elsewhere, is := errors.AsType[*redirectError](err); is {
		return fmt.Errorf("%s: %w", DisplayName(d), elsewhere)
	}
	if err == nil && speaksNoGRPC(d, &answer) {
		err = fmt.Errorf("%w: %s", errNoGRPC, answer.Message)
	}
	if err != nil {
		return DescribeFailure(d, err, found.Result(), f.Limit)
	}
	if answer.Status == http.StatusBadRequest && d.TLS == nil && !d.Wire.IsGRPC() {
		if there := Probe(opening, d.Address); there.TLS {
			return DescribeFailure(d, errTLSOnly, there, f.Limit)
		}
	}
	if !f.Whole && answer.HasEvents() {
		d.HoldEvents()
		f.printNote("first call: the answer is a stream of events: each client holds one open, and a call is one event; --sse=false loads whole answers")
		return f.tryStream(opening, found)
	}
	ended := time.Now()
	status := (&service.StatusError{GRPC: d.Wire.IsGRPC(), Status: answer.Status, Message: answer.Message}).Describe()
	f.printNote("first call: %s, %d bytes, %v", status, answer.Bytes, ended.Sub(begin).Round(10*time.Microsecond))
	return f.checkExpectations(answer.ForConditions(d.Wire.Kind(), ended.Sub(sent)))
}

func (f *FirstCall) printNote(format string, values ...any) {
	fmt.Fprintf(f.Notes, format+"\n", values...)
}

// TryConnection opens a connection to a service. Its errors are clearer than grpc-go's.
func TryConnection(ctx context.Context, d *service.Definition) error {
	ctx, cancel := context.WithTimeout(ctx, DescribeTimeout)
	defer cancel()
	client, err := library.Open(ctx, service.Plan{Definition: d, Connections: 1, Callers: 1, Dialer: &conn.Dialer{}})
	if err != nil {
		return err
	}
	return client.Close()
}

// speaksNoGRPC reports whether an answer proves that the server does not speak gRPC. The status
// Unavailable proves nothing, because a proxy sends this status if it finds no server.
func speaksNoGRPC(d *service.Definition, answer *service.Answer) bool {
	if !d.Wire.IsGRPC() || len(d.Expect) > 0 || codes.Code(answer.Status) == codes.Unavailable {
		return false
	}
	return strings.Contains(answer.Message, "unexpected HTTP status") || strings.Contains(answer.Message, "response with content-type")
}

// checkExpectations checks the first answer. If only a latency condition fails, the load may
// start, because later answers may be faster.
func (f *FirstCall) checkExpectations(answer expect.Answer) error {
	d := f.Definition
	all, err := d.Expectations()
	if err != nil {
		return err
	}
	if answer, err = all.DecodeAnswer(answer); err != nil {
		return err
	}
	look, uses := expect.NewEvaluator(), expect.Uses{}
	look.SetAnswer(answer)
	for _, text := range d.Expect {
		condition, err := expect.Parse(text, d.Wire.Kind())
		if err != nil {
			return err
		}
		uses = uses.Plus(condition.Uses())
		unmet, is := errors.AsType[*expect.UnmetError](condition.Check(look))
		switch {
		case !is:
		case condition.Uses().Latency:
			f.printNote("note: the first answer does not meet --expect %s: found %s", text, unmet.Found)
		default:
			return fmt.Errorf("the first answer does not meet --expect %s: found %s: the load was not started; check the condition and the service", text, unmet.Found)
		}
	}
	isMissing := answer.Status == http.StatusNotFound || answer.Status == http.StatusMethodNotAllowed
	if isMissing && !d.Wire.IsGRPC() && !uses.Status && len(d.Requests) == 1 && d.Feed == nil {
		return fmt.Errorf("the first answer is %d %s: the load was not started; check the path and the method, or expect this answer with --expect 'status == %d'",
			answer.Status, http.StatusText(answer.Status), answer.Status)
	}
	return nil
}

// firstRounds makes one round of each kind of user. If one fails, the load does not start.
func (f *FirstCall) firstRounds(ctx context.Context, client service.Client) error {
	d := f.Definition
	expected, err := d.Expectations()
	if err != nil {
		return err
	}
	if err := f.Script.Describe(d.Journey.Methods); err != nil {
		return fmt.Errorf("%s: %w", DisplayName(d), err)
	}
	for i, kind := range f.Script.Kinds() {
		source := f.Script.Source(journey.User{Client: i, Clients: 1, Kind: i, Seed: f.Seed, Header: d.Requests[0].Header})
		round := firstRound{FirstCall: f, kind: kind, source: source, caller: d.NewCaller(client, source)}
		round.caller.CheckAnswers(expected, f.Seed)
		if err := round.run(ctx, client); err != nil {
			return fmt.Errorf("%s: %w: the load was not started", DisplayName(d), err)
		}
	}
	return nil
}

type firstRound struct {
	*FirstCall
	kind   string
	source *journey.Source
	caller *service.Caller
}

func (r *firstRound) run(ctx context.Context, client service.Client) error {
	first, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()
	if err := r.source.Begin(first, client); err != nil {
		return fmt.Errorf("the first round: %s: %w", r.kind, nameCondition(err))
	}
	for !r.source.RoundEnded() {
		err := r.call(ctx)
		if unmet, is := errors.AsType[*expect.UnmetError](err); is && isAboutLatency(unmet) {
			r.printNote("note: the first round: %s does not meet %s: %v", r.caller.Name(), unmet.Condition, unmet)
			return nil // no error: in the load, answers may be faster
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
	if _, answered := r.caller.Status(); answered {
		r.printNote("first round: %s: %s, %v", r.caller.Name(), r.caller.LastStatus().Describe(), took.Round(10*time.Microsecond))
	}
	if err != nil {
		return err
	}
	return r.caller.Check()
}

func isAboutLatency(unmet *expect.UnmetError) bool {
	condition, err := expect.Parse(unmet.Condition, expect.GRPC) // it takes what HTTP has, and code
	return err == nil && condition.Uses().Latency
}

// nameCondition adds the text of the unmet condition to an error.
func nameCondition(err error) error {
	if unmet, is := errors.AsType[*expect.UnmetError](err); is {
		return fmt.Errorf("%s: %w", unmet.Condition, err)
	}
	return err
}

// maxRedirects limits the redirects that the first call follows, as in browsers and curl.
const maxRedirects = 10

// A redirectError describes a redirect to a target that must not be loaded.
type redirectError struct{ text string }

func (e *redirectError) Error() string { return e.text }

// followRedirects makes the first call and follows redirects on the same server. The load then uses
// the last URL. With --expect it follows no redirects, because a redirect may be the right answer.
func (f *FirstCall) followRedirects(ctx context.Context, client service.Client, answer *service.Answer) error {
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
				f.printNote("first call: redirected to %s %s: this URL is loaded", request.Method, request.Path)
			}
			return nil
		}
		to, err := redirectTarget(d, answer)
		switch {
		case err != nil:
			return err
		case len(d.Requests) > 1 || d.Feed != nil:
			f.printNote("first call: status %d, a redirect to %s; redirects of several requests are not followed: they are counted by status", answer.Status, to)
			return nil
		case f.Fixed:
			return &redirectError{fmt.Sprintf("the server answers %d and redirects to %s: an agent must not change the requests: name this URL in place of the target", answer.Status, to)}
		case followed == maxRedirects:
			return &redirectError{fmt.Sprintf("the server redirects more than %d times, the last time to %s: name the URL that answers without a redirect", maxRedirects, to)}
		}
		applyRedirect(request, to, answer.Status)
	}
}

// redirectTarget returns the URL that an answer redirects to. The URL must be on the same server.
func redirectTarget(d *service.Definition, answer *service.Answer) (*url.URL, error) {
	here := &url.URL{Scheme: urlScheme(d, d.TLS != nil), Host: d.Authority}
	asked, err := here.Parse(d.Requests[0].Path)
	if err != nil {
		return nil, err
	}
	location := answer.Header.Get("Location")
	to, err := asked.Parse(location)
	if err != nil {
		return nil, &redirectError{fmt.Sprintf("the server answers %d and redirects to %q, which is not a URL", answer.Status, location)}
	}
	address := withPort(&url.URL{Scheme: here.Scheme, Host: d.Address})
	if to.Scheme != here.Scheme || withPort(to) != withPort(here) && withPort(to) != address {
		return nil, &redirectError{fmt.Sprintf("the server answers %d and redirects to %s, on another server: to load that server, run: wirelab load '%s'", answer.Status, to, to)}
	}
	return to, nil
}

// withPort returns a URL's host and port. If the URL has no port, it uses the scheme's default.
func withPort(u *url.URL) string {
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))
}

// applyRedirect changes the request as the redirect demands. As in browsers, POST becomes GET,
// unless the status says that the method stays the same.
func applyRedirect(request *service.Request, to *url.URL, status int) {
	request.Path = to.RequestURI()
	stays := status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect
	if stays || request.Method == http.MethodGet || request.Method == http.MethodHead {
		return
	}
	request.Method, request.Body = http.MethodGet, nil
	request.Header = slices.DeleteFunc(slices.Clone(request.Header), func(f service.Field) bool { return f.Name == "Content-Type" })
}
