// Package feed makes requests from templates and rows of data while calls are sent.
//
//	rows.csv ── ReadRows ──┐
//	templates ─────────────┴─> service.Feed ── Parse ──> Feed ── Source ──> Next() → Request
//	                           (goes to a worker)   (once)   (one per client)
//
// Parse parses each template once, and checks the names of functions, fields and columns. Check
// makes requests from every row, so that errors are reported before anything is sent. A text
// without a template is used unchanged.
//
// A call's number determines its row and its request. The clients' numbers are interleaved, so that
// clients take different rows and no row is left out. With the same seed, every client makes the
// same requests again, except for times.
//
// This package must not know how requests are carried.
package feed

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"wirelab.dev/internal/base/excerpt"
	"wirelab.dev/internal/wire/schema"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/template"
)

// A Feed holds the parsed requests of a plan. Any goroutine may use it.
type Feed struct {
	requests []request
	rows     service.Rows
	random   bool
}

type request struct {
	form   template.Form
	method *schema.Method // nil means HTTP
	// messages holds the encoded gRPC messages if the body has no template.
	messages [][]byte
	isJSON   bool // the content type says that the body is JSON
}

// Parse parses the requests of a plan.
func Parse(plan *service.Feed) (*Feed, error) {
	if len(plan.Requests) == 0 {
		return nil, errors.New("the plan has no request: add at least one")
	}
	if len(plan.Rows.Columns) > 0 && len(plan.Rows.Values) == 0 {
		return nil, errors.New("the data has no rows: add at least one")
	}
	for i, row := range plan.Rows.Values {
		if len(row) != len(plan.Rows.Columns) {
			return nil, fmt.Errorf("row %d of the data has %d values, want one for each of the %d columns", i+1, len(row), len(plan.Rows.Columns))
		}
	}
	f := &Feed{rows: plan.Rows, random: plan.Random}
	for i := range plan.Requests {
		parsed, err := f.parseRequest(plan, &plan.Requests[i])
		if err != nil {
			return nil, withRequestName(&plan.Requests[i], err)
		}
		f.requests = append(f.requests, *parsed)
	}
	return f, nil
}

// withRequestName adds the request's name to an error, if the request has one.
func withRequestName(r *service.Request, err error) error {
	if r.Name == "" {
		return err
	}
	return fmt.Errorf("request %s: %w", r.Name, err)
}

func (f *Feed) parseRequest(plan *service.Feed, r *service.Request) (*request, error) {
	p := &request{form: template.Form{Fixed: *r}}
	known := template.Names{Columns: f.rows.Columns, NoRows: "name a data file with --rows"}
	var err error
	if len(plan.Descriptors) > 0 {
		if p.method, err = schema.Load(plan.Descriptors, r.Path); err != nil {
			return nil, err
		}
		p.form.Fixed.Body, p.form.Fixed.Path, p.form.Fixed.Stream = nil, p.method.Path, p.method.Stream
	} else if p.form.Path, err = template.Parse("the path", r.Path, known); err != nil {
		return nil, err
	}
	for _, field := range r.Header {
		value, err := template.Parse("the header "+field.Name, field.Value, known)
		if err != nil {
			return nil, err
		}
		p.form.Header = append(p.form.Header, value)
		if strings.EqualFold(field.Name, "content-type") && strings.Contains(strings.ToLower(field.Value), "json") {
			p.isJSON = true
		}
	}
	if p.form.Body, err = template.Parse("the body", string(r.Body), known); err != nil {
		return nil, err
	}
	if p.method != nil && p.form.Body.Fixed() {
		p.messages, err = p.encode(r.Body)
	}
	return p, err
}

func (p *request) encode(body []byte) ([][]byte, error) {
	messages, err := p.method.Encode(body)
	if err != nil {
		err = fmt.Errorf("the template made the body %s: %w", excerpt.Start(string(body), 60), err)
	}
	return messages, err
}

const maxCheckedRequests = 10_000

// Check parses a plan and makes requests from its templates and rows. It returns the first error.
func Check(plan *service.Feed) error {
	f, err := Parse(plan)
	if err != nil {
		return err
	}
	s := f.Source(service.Share{Of: 1})
	rows := max(len(f.rows.Values), 1)
	for i := range min(rows*len(f.requests), maxCheckedRequests) {
		s.number++
		p := &f.requests[i%len(f.requests)]
		made, err := s.makeRequest(i%len(f.requests), i/len(f.requests))
		if err == nil && p.isJSON && p.method == nil {
			err = checkJSON(made.Body)
		}
		if err != nil {
			if len(f.rows.Values) > 0 {
				err = fmt.Errorf("row %d of the data: %w", i/len(f.requests)+1, err)
			}
			return withRequestName(&p.form.Fixed, err)
		}
	}
	return nil
}

func checkJSON(body []byte) error {
	var value json.RawMessage
	err := json.Unmarshal(body, &value)
	if err == nil || len(body) == 0 {
		return nil
	}
	at := len(body)
	if syntax := (&json.SyntaxError{}); errors.As(err, &syntax) {
		at = min(int(syntax.Offset), len(body))
	}
	return fmt.Errorf("the content type is JSON, but the body is not: %w, after %s; {{json .Row.name}} adds quotes and escapes",
		err, excerpt.End(string(body[:at]), 60))
}

// Source makes the requests of one client. Only one goroutine may use it at a time.
type Source struct {
	feed   *Feed
	client service.Share
	number int // the call's number, counted from 1 over all clients
	forms  []template.Form
	call   *template.Call
	random *rand.Rand
}

// Source returns a source that makes the requests of one client.
func (f *Feed) Source(c service.Share) *Source {
	s := &Source{feed: f, client: c, number: c.Number + 1 - max(c.Of, 1), random: rand.New(rand.NewPCG(c.Seed, uint64(c.Number)))} //nolint:gosec // a client's number is not negative
	s.call = template.NewCall(c.Number, s.random)
	s.call.Row = make(map[string]string, len(f.rows.Columns))
	for i := range f.requests {
		s.forms = append(s.forms, s.call.BindForm(f.requests[i].form, nil))
	}
	return s
}

// Next makes the next request.
func (s *Source) Next() (*service.Request, error) {
	s.number += max(s.client.Of, 1)
	f := s.feed
	// Every row is combined with every request.
	which, row := (s.number-1)%len(f.requests), (s.number-1)/len(f.requests)
	if f.random {
		which, row = s.random.IntN(len(f.requests)), s.random.IntN(max(len(f.rows.Values), 1))
	}
	made, err := s.makeRequest(which, row)
	if err != nil {
		return nil, withRequestName(&f.requests[which].form.Fixed, fmt.Errorf("call %d: %w", s.number, err))
	}
	return made, nil
}

// makeRequest makes the request of the source's current call.
func (s *Source) makeRequest(which, row int) (*service.Request, error) {
	p := &s.feed.requests[which]
	s.call.Begin(s.number)
	if rows := s.feed.rows.Values; len(rows) > 0 {
		for i, column := range s.feed.rows.Columns {
			s.call.Row[column] = rows[row%len(rows)][i]
		}
	}
	made, err := s.call.Fill(&s.forms[which])
	if err != nil || p.method == nil {
		return made, err
	}
	messages := p.messages
	if !p.form.Body.Fixed() {
		if messages, err = p.encode(made.Body); err != nil {
			return nil, err
		}
		made.Body = nil
	}
	if !p.method.Stream.Client && len(messages) > 1 { // unary calls send the messages in turn
		turn := (s.number - 1) / len(s.feed.requests) % len(messages)
		messages = messages[turn : turn+1]
	}
	made.Messages = messages
	return made, nil
}
