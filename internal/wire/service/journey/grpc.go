package journey

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"wirelab.dev/internal/base/expect"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/wire/schema"
	"wirelab.dev/internal/wire/service"
)

// actions returns the login and the steps of all users.
func (s *Script) actions() []*action {
	var all []*action
	if s.login != nil {
		all = append(all, s.login)
	}
	for _, k := range s.kinds {
		for i := range k.steps {
			all = append(all, &k.steps[i])
		}
	}
	return all
}

// Methods returns the path of each gRPC method that a step calls.
func (s *Script) Methods() []string {
	var all []string
	for _, a := range s.actions() {
		if a.form.Fixed.GRPC {
			all = lists.AppendNew(all, a.form.Fixed.Path)
		}
	}
	return all
}

// UsesHTTP reports whether a step is a request of HTTP.
func (s *Script) UsesHTTP() bool {
	return slices.ContainsFunc(s.actions(), func(a *action) bool { return !a.form.Fixed.GRPC })
}

// Describe tells the script its gRPC methods: a result of schema.Method.Files for each path. It
// encodes each body without a template, and returns the first error.
func (s *Script) Describe(methods map[string][]byte) error {
	for _, a := range s.actions() {
		fixed := &a.form.Fixed
		if !fixed.GRPC {
			continue
		}
		var err error
		if a.method, err = schema.Load(methods[fixed.Path], fixed.Path); err != nil {
			return err
		}
		fixed.Path, fixed.Stream = a.method.Path, a.method.Stream
		if a.form.Body.Fixed() {
			if fixed.Messages, err = a.encode(fixed.Body); err != nil {
				return fmt.Errorf("%s: %w", fixed.Name, err)
			}
			fixed.Body = nil
		}
	}
	return nil
}

// encode returns the messages of one call.
func (a *action) encode(body []byte) ([][]byte, error) {
	calls, err := a.method.Calls(body)
	if err != nil {
		return nil, fmt.Errorf("the body: %w", err)
	}
	if len(calls) != 1 {
		return nil, fmt.Errorf("the body has %d messages: want one, because a call of %s sends only one", len(calls), a.method.Path)
	}
	return calls[0], nil
}

// complete encodes the body of a gRPC request that a template made.
func (a *action) complete(made *service.Request) error {
	if a.method == nil || a.form.Body.Fixed() {
		return nil
	}
	var err error
	made.Messages, err = a.encode(made.Body)
	made.Body = nil
	return err
}

// decode converts the answer's message into JSON.
func (a *action) decode(seen expect.Answer) (_ expect.Answer, err error) {
	if a.method == nil || !a.usesBody || !service.IsUsual(seen.Kind, seen.Status) {
		return seen, nil
	}
	seen.Body, err = a.method.Decode(seen.Body)
	return seen, err
}

// CheckTargets checks where the steps of HTTP and of gRPC go. It returns the target of gRPC steps; no host
// means that they go to the target of the other steps. name is the file's name.
func (s *Script) CheckTargets(name, target string) (grpc service.Target, _ error) {
	where, err := url.Parse(target)
	if err != nil || where.Path != "" && where.Path != "/" || where.RawQuery != "" || !slices.Contains([]string{"http", "https", "grpc", "grpcs"}, where.Scheme) {
		return grpc, fmt.Errorf("%s: found the target %q: want http://, https://, grpc:// or grpcs:// with a host and no path, because each step has its own", name, target)
	}
	onlyGRPC, calls := strings.HasPrefix(where.Scheme, "grpc"), len(s.Methods()) > 0
	switch {
	case onlyGRPC && s.UsesHTTP():
		return grpc, fmt.Errorf("%s: the target %s takes no steps of HTTP: write target: http://… for them, and grpc: %s", name, target, target)
	case onlyGRPC || !calls:
		return grpc, nil
	case s.GRPC == "":
		return grpc, fmt.Errorf("%s: the steps with call go to a gRPC service, and the file does not say where: write grpc: grpc://HOST:PORT beside target", name)
	}
	if grpc, err = service.ParseTarget(s.GRPC, "grpc"); err == nil && (!grpc.Wire.IsGRPC() || grpc.Path != "") {
		err = fmt.Errorf("found %q: want grpc://HOST:PORT or grpcs://HOST:PORT", s.GRPC)
	}
	if err != nil {
		return grpc, fmt.Errorf("%s: grpc: %w", name, err)
	}
	return grpc, nil
}
