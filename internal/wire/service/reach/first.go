// Package reach makes the first call to a service, before it is loaded, and says what is wrong
// where that fails: what listens at the address, and what to do about it.
//
// It must not know how calls are measured.
package reach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	Request    *service.Request // that is called; a redirect changes it
	Script     *journey.Script  // of the users; nil: one request is called
	Seed       uint64           // of the users' random values
	Limit      time.Duration    // of a call; 0: UsualLimit
	Notes      io.Writer        // where it is written what came back
}

// Try makes the call, and writes what came back. A service that it cannot call must not be
// loaded.
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

// TryConnection opens a connection to a service. Its error says more than that of grpc-go.
func TryConnection(ctx context.Context, d *service.Definition) error {
	ctx, cancel := context.WithTimeout(ctx, DescribeAtMost)
	defer cancel()
	client, err := library.Open(ctx, service.Plan{Definition: d, Connections: 1, Callers: 1, Dialer: &conn.Dialer{}})
	if err != nil {
		return err
	}
	return client.Close()
}

// speaksNoGRPC reports whether an answer's code stands for an answer of HTTP. Unavailable may
// come from a proxy that finds no server just now.
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
