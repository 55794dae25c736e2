// Package journey makes the requests of users who do one thing after the other: who log in,
// look, think, and buy what they saw.
//
//	shop.yaml ── Parse ──> Script ── Sources ──> Next() → Request ──> answer
//	(goes to a worker)    (shared)  (one per user) ▲                     │
//	                                               └── Follow: expect, take
//
// A file is read strictly, and all in it is compiled when it is read: templates, conditions,
// and the names that they use.
//
// Glossary:
//
//	user    a client of the load: of one kind for its whole life, shared out by weight
//	step    one call
//	round   the steps of a user, from the first to the last, or to one that fails
//	think   the time from an answer to the user's next step
//	taken   a value out of an answer, for the steps after it in the same round
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
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/template"
)

// A Script holds a checked journey. It may be shared.
type Script struct {
	Target string
	login  *action // nil: there is none
	kinds  []kind
	rows   []map[string]string
	uses   expect.Uses
}

// A kind is a kind of users.
type kind struct {
	name   string
	weight int
	steps  []action
}

// An action is a compiled step.
type action struct {
	form   template.Form
	expect *expect.Condition // nil: none beside the usual one
	take   []taking
	think  Think
}

type taking struct {
	name  string
	value *expect.Value
}

// Limits of a file.
const (
	mostKinds  = 16
	mostSteps  = 64 // all kinds together: the most that records name
	mostWeight = 1000
)

// Parse reads a journey. Its errors say where in the file something is wrong.
func Parse(name string, data []byte) (*Script, error) {
	document, err := scenario.ReadDocument(name, data)
	if err != nil {
		return nil, err
	}
	var f file
	if err := document.Decode(&f); err != nil {
		return nil, err
	}
	r := reading{document: document, file: &f}
	if err := r.all(); err != nil {
		return nil, err
	}
	return &r.script, nil
}

// A reading holds a file while it is compiled into a script.
type reading struct {
	document *scenario.Document
	file     *file
	script   Script
	known    template.Names // before the first step of a round
}

func (r *reading) all() error {
	r.script.Target, r.script.rows = r.file.Target, r.file.Rows
	r.known.NoRows, r.known.Hint = "write it under `rows`, each row with its names and values", "; a step takes values for those after it"
	if err := r.rows(); err != nil {
		return err
	}
	if r.document.Has("login") {
		login, known, err := r.action(&r.file.Login, r.known, []any{"login"})
		if err != nil {
			return err
		}
		login.form.Fixed.Name = "login"
		r.script.login, r.known = login, known
	}
	if len(r.file.Users) == 0 || len(r.file.Users) > mostKinds {
		return r.document.Errorf([]any{"users"}, "found %d kinds of users: want 1 to %d under `users`, each with a name and steps", len(r.file.Users), mostKinds)
	}
	steps := 0
	for i := range r.file.Users {
		if err := r.kind(&r.file.Users[i], []any{"users", i}); err != nil {
			return err
		}
		steps += len(r.file.Users[i].Steps)
	}
	if steps > mostSteps {
		return r.document.Errorf([]any{"users"}, "found %d steps: want at most %d", steps, mostSteps)
	}
	return nil
}

// rows checks that all have the same names.
func (r *reading) rows() error {
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

func (r *reading) kind(u *user, at []any) error {
	here := func(key any) []any { return append(slices.Clone(at), key) }
	weight := u.Weight
	if !r.document.Has(here("weight")...) {
		weight = 1
	}
	switch {
	case u.Name == "":
		return r.document.Errorf(at, "the users have no name: write `name: …`")
	case slices.ContainsFunc(r.script.kinds, func(k kind) bool { return k.name == u.Name }):
		return r.document.Errorf(here("name"), "the name %s is taken: want another for each kind of users", u.Name)
	case weight < 1 || weight > mostWeight:
		return r.document.Errorf(here("weight"), "found %d: want 1 to %d", weight, mostWeight)
	case len(u.Steps) == 0:
		return r.document.Errorf(at, "%s has no steps: write them under `steps`", u.Name)
	}
	k := kind{name: u.Name, weight: weight}
	known := r.known
	for i := range u.Steps {
		var one *action
		var err error
		if one, known, err = r.action(&u.Steps[i], known, append(here("steps"), i)); err != nil {
			return err
		}
		name := u.Name + ": " + one.form.Fixed.Name
		one.form.Fixed.Name = name
		if slices.ContainsFunc(k.steps, func(other action) bool { return other.form.Fixed.Name == name }) {
			return r.document.Errorf(append(here("steps"), i), "a second step %q: give it another `name`", name)
		}
		if !r.document.Has(append(here("steps"), i, "think")...) {
			one.think = u.Think
		}
		k.steps = append(k.steps, *one)
	}
	r.script.kinds = append(r.script.kinds, k)
	return nil
}

// action compiles a step, and returns the names that those after it know.
func (r *reading) action(s *step, known template.Names, at []any) (*action, template.Names, error) {
	here := func(keys ...any) []any { return append(slices.Clone(at), keys...) }
	given := s.methods()
	if len(given) != 1 {
		return nil, known, r.document.Errorf(at, "found %d methods: want one of get, post, put, patch, delete and head, with its path", len(given))
	}
	a := &action{think: s.Think}
	f := &a.form
	var err error
	for method, path := range given {
		key := strings.ToLower(method)
		f.Fixed = service.Request{Name: cmp.Or(s.Name, method+" "+path), Method: method, Path: path, Body: []byte(s.Body)}
		if f.Path, err = template.Parse(key, path, known); err == nil && path[0] != '/' {
			err = fmt.Errorf("%s: found %q: want a path, which begins with a slash", key, path)
		}
		if err != nil {
			return nil, known, r.document.Errorf(here(key), "%v", err)
		}
	}
	if f.Body, err = template.Parse("body", s.Body, known); err != nil {
		return nil, known, r.document.Errorf(here("body"), "%v", err)
	}
	if err = r.headers(f, s, known, at); err != nil {
		return nil, known, err
	}
	if s.Expect != "" {
		if a.expect, err = expect.Parse(s.Expect, expect.HTTP); err != nil {
			return nil, known, r.document.Errorf(here("expect"), "expect: %v", reason(err))
		}
		r.script.uses = r.script.uses.Plus(a.expect.Uses())
	}
	for _, name := range slices.Sorted(maps.Keys(s.Take)) {
		value, err := r.taking(name, s.Take[name])
		if err != nil {
			return nil, known, r.document.Errorf(here("take", name), "take %s: %v", name, reason(err))
		}
		r.script.uses = r.script.uses.Plus(value.Uses())
		a.take = append(a.take, taking{name, value})
		known = known.With(name)
	}
	return a, known, nil
}

// reason returns the error in an expression. The file shows the place.
func reason(err error) error {
	if mistake, is := errors.AsType[*expect.Mistake](err); is {
		return fmt.Errorf("at character %d of the expression: %s", mistake.Column, mistake.Reason)
	}
	return err
}

func (r *reading) taking(name, text string) (*expect.Value, error) {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" || strings.Contains("0123456789", name[:min(1, len(name))]) {
		return nil, errors.New("want a name of letters, digits and _, which templates can use")
	}
	if name == "N" || name == "Client" || name == "Row" {
		return nil, errors.New("this name has a meaning of its own: take another")
	}
	return expect.ParseValue(text, expect.HTTP)
}

// headers adds the fields of the file, replaced by a step's own fields of the same name. The
// login has only its own: the file's may use values that the login takes.
func (r *reading) headers(f *template.Form, s *step, known template.Names, at []any) error {
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
				return r.document.Errorf(append(list.path, name), "found the field %q with the value %q: want a name and a value of HTTP", name, list.fields[name])
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

// A file holds a journey as it is written.
type file struct {
	Version int                 `json:"version"`
	Target  string              `json:"target"` // as of `wirelab load`, without a path
	Login   step                `json:"login"`  // once per user, before the load, not measured
	Headers map[string]string   `json:"headers"`
	Rows    []map[string]string `json:"rows"` // data: each user has one of them
	Users   []user              `json:"users"`
}

// A user is a kind of users.
type user struct {
	Name   string `json:"name"`
	Weight int    `json:"weight"` // its share of the users, beside the others' weights; 1 if left out
	Think  Think  `json:"think"`  // after each step
	Steps  []step `json:"steps"`
}

// A step is one call. Exactly one of the methods has a path.
type step struct {
	Name    string            `json:"name"` // in reports; the method and the path if left out
	Get     string            `json:"get"`
	Post    string            `json:"post"`
	Put     string            `json:"put"`
	Patch   string            `json:"patch"`
	Delete  string            `json:"delete"`
	Head    string            `json:"head"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Expect  string            `json:"expect"`
	Take    map[string]string `json:"take"` // names of values, and where in the answer they are
	Think   Think             `json:"think"`
}

// methods returns the paths of a step by their methods.
func (s *step) methods() map[string]string {
	given := map[string]string{}
	for method, path := range map[string]string{
		http.MethodGet: s.Get, http.MethodPost: s.Post, http.MethodPut: s.Put,
		http.MethodPatch: s.Patch, http.MethodDelete: s.Delete, http.MethodHead: s.Head,
	} {
		if path != "" {
			given[method] = path
		}
	}
	return given
}

// A Think is a time, or a range of times.
type Think struct{ least, most time.Duration }

// longestThink limits the time. A longer one is surely a mistake.
const longestThink = time.Hour

// UnmarshalText reads 100ms or 50ms..200ms.
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
			return fmt.Errorf("%w; two times with .. between them are the least and the most", err)
		}
		*end.into = time.Duration(d)
	}
	if t.least < 0 || t.least > t.most || t.most > longestThink {
		return fmt.Errorf("found %s: want a time, or two in order, up to %v", text, longestThink)
	}
	return nil
}

func (t Think) pick(random *rand.Rand) time.Duration {
	if t.most == t.least {
		return t.least
	}
	return t.least + time.Duration(random.Int64N(int64(t.most-t.least)+1))
}
