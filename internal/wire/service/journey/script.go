// Package journey makes the requests of users who take several steps: they log in, search, think,
// and buy what they found.
//
//	shop.yaml ── Parse ──> Script ── Sources ──> Next() → Request ──> answer
//	(goes to a worker)    (shared)  (one per user) ▲                     │
//	                                               └── Follow: expect, take
//
// Parse refuses unknown keys in a file. It compiles templates and conditions, and checks every name
// in them.
//
// Glossary:
//
//	user    a client of the load; its kind is chosen by weight
//	step    one call
//	round   a user's steps from the first to the last, or until one fails
//	think   the time from an answer to the user's next step
//	taken   a value from an answer, for later steps in the same round
//
// This package must not know how requests are carried, nor when they are sent.
package journey

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"wirelab.dev/internal/base/expect"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/schema"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/template"
)

// A Script holds a checked journey. Any number of users may share it.
type Script struct {
	Target string
	// GRPC is the target of gRPC steps, if the file names one.
	GRPC string
	// Proto and Protoset are the files that describe the gRPC methods, if the file names one.
	Proto, Protoset string
	login           *action // nil means no login
	kinds           []userKind
	rows            []map[string]string
	uses            expect.Uses
}

type userKind struct {
	name   string
	weight int
	steps  []action
}

type action struct {
	form   template.Form
	method *schema.Method    // nil means HTTP, or a method that Describe has not been told yet
	expect *expect.Condition // nil means that only the usual condition applies
	take   []extraction
	think  Think
	// usesBody says that expect or take reads the body of the answer.
	usesBody bool
}

type extraction struct {
	name  string
	value *expect.Value
}

// These limits apply to one file.
const (
	maxKinds  = 16
	maxSteps  = 64 // limit of all steps together, because records name no more
	maxWeight = 1000
)

// Parse reads a journey. Its errors show the place in the file.
func Parse(name string, data []byte) (*Script, error) {
	document, err := scenario.ReadDocument(name, data)
	if err != nil {
		return nil, err
	}
	var f file
	if err := document.Decode(&f); err != nil {
		return nil, err
	}
	r := compiler{document: document, file: &f}
	if err := r.compile(); err != nil {
		return nil, err
	}
	return &r.script, nil
}

// A compiler compiles a file into a script.
type compiler struct {
	document *scenario.Document
	file     *file
	script   Script
	known    template.Names // names that the first step of a round may use
}

func (r *compiler) compile() error {
	r.script.Target, r.script.GRPC, r.script.rows = r.file.Target, r.file.GRPC, r.file.Rows
	r.script.Proto, r.script.Protoset = r.file.Proto, r.file.Protoset
	r.known.NoRows, r.known.Hint = "write rows with names and values under `rows`", "; a step can use only values taken by earlier steps"
	if err := r.checkRows(); err != nil {
		return err
	}
	if r.document.Has("login") {
		login, known, err := r.compileStep(&r.file.Login, r.known, []any{"login"})
		if err != nil {
			return err
		}
		login.form.Fixed.Name = "login"
		r.script.login, r.known = login, known
	}
	if len(r.file.Users) == 0 || len(r.file.Users) > maxKinds {
		return r.document.Errorf([]any{"users"}, "found %d kinds of users: want 1 to %d, each with a name and steps", len(r.file.Users), maxKinds)
	}
	steps := 0
	for i := range r.file.Users {
		if err := r.compileKind(&r.file.Users[i], []any{"users", i}); err != nil {
			return err
		}
		steps += len(r.file.Users[i].Steps)
	}
	if steps > maxSteps {
		return r.document.Errorf([]any{"users"}, "found %d steps: want at most %d", steps, maxSteps)
	}
	return nil
}

func (r *compiler) checkRows() error {
	for i, row := range r.file.Rows {
		columns := slices.Sorted(maps.Keys(row))
		if i == 0 {
			r.known.Columns = columns
		} else if !slices.Equal(columns, r.known.Columns) {
			return r.document.Errorf([]any{"rows", i}, "found a row with %s: want %s, as in the first row", strings.Join(columns, ", "), strings.Join(r.known.Columns, ", "))
		}
	}
	return nil
}

func (r *compiler) compileKind(u *user, at []any) error {
	here := func(key any) []any { return append(slices.Clone(at), key) }
	weight := u.Weight
	if !r.document.Has(here("weight")...) {
		weight = 1
	}
	switch {
	case u.Name == "":
		return r.document.Errorf(at, "this kind of users has no name: write `name: …`")
	case slices.ContainsFunc(r.script.kinds, func(k userKind) bool { return k.name == u.Name }):
		return r.document.Errorf(here("name"), "two kinds of users are named %s: give each its own name", u.Name)
	case weight < 1 || weight > maxWeight:
		return r.document.Errorf(here("weight"), "found %d: want 1 to %d", weight, maxWeight)
	case len(u.Steps) == 0:
		return r.document.Errorf(at, "%s has no steps: write them under `steps`", u.Name)
	}
	k := userKind{name: u.Name, weight: weight}
	known := r.known
	for i := range u.Steps {
		var one *action
		var err error
		if one, known, err = r.compileStep(&u.Steps[i], known, append(here("steps"), i)); err != nil {
			return err
		}
		name := u.Name + ": " + one.form.Fixed.Name
		one.form.Fixed.Name = name
		if slices.ContainsFunc(k.steps, func(other action) bool { return other.form.Fixed.Name == name }) {
			return r.document.Errorf(append(here("steps"), i), "two steps are named %q: give each its own `name`", name)
		}
		if !r.document.Has(append(here("steps"), i, "think")...) {
			one.think = u.Think
		}
		k.steps = append(k.steps, *one)
	}
	r.script.kinds = append(r.script.kinds, k)
	return nil
}

// compileStep compiles a step. It returns the names that later steps may use.
func (r *compiler) compileStep(s *step, known template.Names, at []any) (*action, template.Names, error) {
	here := func(keys ...any) []any { return append(slices.Clone(at), keys...) }
	a, err := r.compileRequest(s, known, at)
	if err != nil {
		return nil, known, err
	}
	f := &a.form
	kind := expect.HTTP
	if f.Fixed.GRPC {
		kind = expect.GRPC
	}
	if f.Body, err = template.Parse("body", s.Body, known); err != nil {
		return nil, known, r.document.Errorf(here("body"), "%v", err)
	}
	if err = r.compileHeaders(f, s, known, at); err != nil {
		return nil, known, err
	}
	if s.Expect != "" {
		if a.expect, err = expect.Parse(s.Expect, kind); err != nil {
			return nil, known, r.document.Errorf(here("expect"), "expect: %v", expressionError(err))
		}
		r.script.uses, a.usesBody = r.script.uses.Plus(a.expect.Uses()), a.expect.Uses().Body
	}
	for _, name := range slices.Sorted(maps.Keys(s.Take)) {
		value, err := compileTake(name, s.Take[name], kind)
		if err != nil {
			return nil, known, r.document.Errorf(here("take", name), "take %s: %v", name, expressionError(err))
		}
		r.script.uses, a.usesBody = r.script.uses.Plus(value.Uses()), a.usesBody || value.Uses().Body
		a.take = append(a.take, extraction{name, value})
		known = known.With(name)
	}
	return a, known, nil
}

// compileRequest compiles the method and the path of a step.
func (r *compiler) compileRequest(s *step, known template.Names, at []any) (*action, error) {
	here := func(key any) []any { return append(slices.Clone(at), key) }
	given := s.methods()
	if len(given) != 1 {
		return nil, r.document.Errorf(at, "found %d methods: want exactly one: get, post, put, patch, delete or head with a path, or call with a method of gRPC", len(given))
	}
	a := &action{think: s.Think}
	f := &a.form
	f.Fixed = service.Request{Body: []byte(s.Body), Timeout: time.Duration(s.Timeout)}
	if s.Timeout < 0 {
		return nil, r.document.Errorf(here("timeout"), "found %v: want more than 0s", time.Duration(s.Timeout))
	}
	if s.Call != "" {
		f.Fixed.Name, f.Fixed.Method, f.Fixed.GRPC = cmp.Or(s.Name, s.Call), http.MethodPost, true
		f.Fixed.Path = "/" + strings.TrimPrefix(s.Call, "/")
		if strings.Count(f.Fixed.Path, "/") != 2 {
			return nil, r.document.Errorf(here("call"), "found %q: want pkg.Service/Method", s.Call)
		}
		return a, nil
	}
	for method, path := range given {
		key := strings.ToLower(method)
		f.Fixed.Name, f.Fixed.Method, f.Fixed.Path = cmp.Or(s.Name, method+" "+path), method, path
		var err error
		if f.Path, err = template.Parse(key, path, known); err == nil && path[0] != '/' {
			err = fmt.Errorf("%s: found %q: want a path that begins with a slash", key, path)
		}
		if err != nil {
			return nil, r.document.Errorf(here(key), "%v", err)
		}
	}
	return a, nil
}

// expressionError returns an expression's error without its place, because the caller adds the
// place in the file.
func expressionError(err error) error {
	if mistake, is := errors.AsType[*expect.Mistake](err); is {
		return fmt.Errorf("at character %d of the expression: %s", mistake.Column, mistake.Reason)
	}
	return err
}

func compileTake(name, text string, kind expect.Kind) (*expect.Value, error) {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" || strings.Contains("0123456789", name[:min(1, len(name))]) {
		return nil, errors.New("want a name of letters, digits and _ that does not begin with a digit")
	}
	if name == "N" || name == "Client" || name == "Row" {
		return nil, errors.New("the name is reserved: choose another")
	}
	return expect.ParseValue(text, kind)
}

// compileHeaders adds the file's header fields. A step's field replaces the file's field of the
// same name. The login has only its own fields, because the file's fields may use the login's
// values.
func (r *compiler) compileHeaders(f *template.Form, s *step, known template.Names, at []any) error {
	all := map[string]template.Text{}
	sources := map[string]string{}
	for _, list := range []struct {
		fields map[string]string
		path   []any
	}{{r.file.Headers, []any{"headers"}}, {s.Headers, append(slices.Clone(at), "headers")}} {
		if at[0] == "login" && len(list.path) == 1 {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(list.fields)) {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(list.fields[name]) {
				return r.document.Errorf(append(list.path, name), "found the header %q with the value %q: HTTP allows no such header", name, list.fields[name])
			}
			value, err := template.Parse(name, list.fields[name], known)
			if err != nil {
				return r.document.Errorf(append(list.path, name), "%v", err)
			}
			all[http.CanonicalHeaderKey(name)], sources[http.CanonicalHeaderKey(name)] = value, list.fields[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f.Fixed.Header = append(f.Fixed.Header, service.Field{Name: name, Value: sources[name]})
		f.Header = append(f.Header, all[name])
	}
	return nil
}

// A file holds a journey as the user wrote it.
type file struct {
	Version int `json:"version"`
	// URL of the service, without a path. --target takes its place.
	Target string `json:"target"`
	// Where gRPC steps go, as in grpc://127.0.0.1:50051. If the target is gRPC's, leave it out.
	GRPC string `json:"grpc"`
	// The .proto file with the methods of gRPC steps, relative to this file. Default: the server's reflection.
	Proto string `json:"proto"`
	// The descriptor file with the methods of gRPC steps, in place of proto.
	Protoset string `json:"protoset"`
	// A call that each user makes once before the load. It is not measured.
	Login step `json:"login"`
	// Header fields of all steps, except the login.
	Headers map[string]string `json:"headers"`
	// Data: each user has one row, in turn.
	Rows []map[string]string `json:"rows"`
	// The kinds of users.
	Users []user `json:"users"`
}

// A user describes one kind of user in the file.
type user struct {
	Name string `json:"name"`
	// Share of the users, relative to the other weights. Default: 1.
	Weight int `json:"weight"`
	// Wait after each step: one time, or the shortest and the longest, as in 5ms..15ms.
	Think Think `json:"think"`
	// One round of calls, in this order.
	Steps []step `json:"steps"`
}

// A step describes one call. It has exactly one of get, post, put, patch, delete, head and call.
type step struct {
	// Name in reports. Default: the method and the path.
	Name string `json:"name"`
	// Path of a GET request.
	Get string `json:"get"`
	// Path of a POST request.
	Post string `json:"post"`
	// Path of a PUT request.
	Put string `json:"put"`
	// Path of a PATCH request.
	Patch string `json:"patch"`
	// Path of a DELETE request.
	Delete string `json:"delete"`
	// Path of a HEAD request.
	Head string `json:"head"`
	// A method of gRPC, as in pkg.Service/Method. The body is JSON.
	Call string `json:"call"`
	// Header fields, or metadata of gRPC. They replace the file's fields of the same name.
	Headers map[string]string `json:"headers"`
	// The body. It may hold templates, as in {{.id}}.
	Body string `json:"body"`
	// The condition of a correct answer, as in status == 201.
	Expect string `json:"expect"`
	// Names of values for later steps, and the place of each in the answer, as in json(.id).
	Take map[string]string `json:"take"`
	// Wait after the step, in place of the user's.
	Think Think `json:"think"`
	// Longest time of the call, in place of --timeout.
	Timeout scenario.Duration `json:"timeout"`
}

func (s *step) methods() map[string]string {
	given := map[string]string{}
	for method, path := range map[string]string{
		http.MethodGet: s.Get, http.MethodPost: s.Post, http.MethodPut: s.Put,
		http.MethodPatch: s.Patch, http.MethodDelete: s.Delete, http.MethodHead: s.Head, "CALL": s.Call,
	} {
		if path != "" {
			given[method] = path
		}
	}
	return given
}

// A Think is a think time, or a range of think times.
type Think struct{ least, most time.Duration }

// maxThink limits a think time. A longer one is probably a mistake.
const maxThink = time.Hour

// UnmarshalText reads a time (100ms) or a range (50ms..200ms).
func (t *Think) UnmarshalText(text []byte) error {
	least, most, isRange := strings.Cut(string(text), "..")
	if !isRange {
		most = least
	}
	for _, end := range []struct {
		text string
		into *time.Duration
	}{{least, &t.least}, {most, &t.most}} {
		var d scenario.Duration
		if err := d.UnmarshalText([]byte(strings.TrimSpace(end.text))); err != nil {
			return fmt.Errorf("%w; write the shortest and the longest time with .. between them", err)
		}
		*end.into = time.Duration(d)
	}
	if t.least < 0 || t.least > t.most || t.most > maxThink {
		return fmt.Errorf("found %s: want a time, or the shortest and the longest, up to %v", text, maxThink)
	}
	return nil
}

func (t Think) random(random *rand.Rand) time.Duration {
	if t.most == t.least {
		return t.least
	}
	return t.least + time.Duration(random.Int64N(int64(t.most-t.least)+1))
}
