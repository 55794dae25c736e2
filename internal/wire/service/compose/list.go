package compose

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/excerpt"
	"wirelab.dev/internal/base/secret"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/template"
)

// Server returns the URL of the server that the list calls. server is the user's target, which
// replaces the servers in the list; it may be empty.
func (t *Targets) Server(server string) (string, error) {
	if server != "" {
		to, err := service.ParseTarget(server, "http")
		if err != nil {
			return "", err
		}
		if to.Wire != service.HTTP1 || to.Connect || to.Path != "/" {
			return "", fmt.Errorf("target %s: the requests of --targets have paths of their own: want http:// or https:// with a host and no path", server)
		}
		return server, nil
	}
	var first service.Target
	for i := range t.all {
		to, err := t.parse(&t.all[i], true)
		switch {
		case err != nil:
			return "", err
		case i == 0:
			first = to
		case to.Secure != first.Secure || to.Authority() != first.Authority():
			return "", t.at(t.all[i].line, fmt.Errorf("found the server %s, but line %d calls %s: a load calls one server; make a list for each, or give the server of all requests as TARGET", serverOf(to), t.all[0].line, serverOf(first)))
		}
	}
	return serverOf(first), nil
}

func serverOf(t service.Target) string {
	t.Path = ""
	return t.String()
}

// parse parses the URL of a request. needsServer says that a path is not enough.
func (t *Targets) parse(one *listed, needsServer bool) (to service.Target, err error) {
	text := one.url
	isPath := strings.HasPrefix(text, "/")
	switch {
	case isPath && needsServer:
		err = fmt.Errorf("found the path %s: write a whole URL, or give the server as TARGET, as in wirelab load --targets FILE http://127.0.0.1:8080", excerpt.Start(text, 60))
	case !isPath && !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://"):
		err = fmt.Errorf("found the URL %q: want http:// or https://; for gRPC give one TARGET, and --rows", excerpt.Start(text, 60))
	case strings.ContainsAny(text, " \t") && !template.HasTemplate(text):
		err = fmt.Errorf("found a space in the URL %q: write it as %%20", excerpt.Start(text, 60))
	case isPath:
		to, err = service.ParseTarget("http://localhost"+text, "http")
	default:
		to, err = service.ParseTarget(text, "http")
	}
	if err != nil {
		err = t.at(one.line, err)
	}
	return to, err
}

// compose makes the requests of the list. base has what the options say for all requests; a header
// field of the list replaces that of the same name.
func (t *Targets) compose(base *Request, method string) error {
	hostAt := 0
	for i := range t.all {
		one := &t.all[i]
		to, err := t.parse(one, false)
		if err != nil {
			return err
		}
		made, host := one.request(base, method), ""
		made.Path = to.Path
		if user := to.User; user != nil {
			password, _ := user.Password()
			made.Header = replaceFields(made.Header, basicCredentials(user.Username()+":"+password))
		}
		made.Header = slices.DeleteFunc(made.Header, func(f service.Field) bool {
			if f.Name != "Host" {
				return false
			}
			host = f.Value
			return true
		})
		switch {
		case host == "":
		case hostAt == 0:
			base.Host, hostAt = host, one.line
		case host != base.Host:
			return t.at(one.line, fmt.Errorf("found Host: %s, but line %d has Host: %s: all requests of a load have one Host; make a list for each", host, hostAt, base.Host))
		}
		if made.Method, err = methodOf(made.Method, len(made.Body) > 0); err != nil {
			return t.at(one.line, err)
		}
		base.All = append(base.All, made)
	}
	base.Request = base.All[0]
	nameAll(base.All)
	return nil
}

// request returns the request, without its path.
func (one *listed) request(base *Request, method string) service.Request {
	made := base.Request
	made.Method, made.Header = method, replaceFields(made.Header, one.header...)
	if one.method != "" {
		made.Method = one.method
	}
	if one.body != nil {
		made.Body = one.body
	}
	return made
}

// replaceFields returns the fields with others in place of those that have the same names.
func replaceFields(fields []service.Field, others ...service.Field) []service.Field {
	kept := slices.DeleteFunc(slices.Clone(fields), func(f service.Field) bool {
		return slices.ContainsFunc(others, func(o service.Field) bool { return o.Name == f.Name })
	})
	return append(kept, others...)
}

// mostNames is the largest number of names for which a load shows figures by name.
const mostNames = 20

// nameAll names the requests by method and path, or without their queries if the names would be too
// many. If they still are, the requests have no names.
func nameAll(all []service.Request) {
	for _, withQuery := range []bool{true, false} {
		names := map[string]bool{}
		for i := range all {
			path := all[i].Path
			if at := strings.IndexByte(path, '?'); at >= 0 && !withQuery {
				path = path[:at]
			}
			all[i].Name = all[i].Method + " " + secret.HideData(path)
			names[all[i].Name] = true
		}
		if len(names) > 1 && len(names) <= mostNames {
			return
		}
	}
	for i := range all {
		all[i].Name = ""
	}
}

// HasTemplate reports whether a part of a request is a template.
func HasTemplate(r service.Request) bool {
	return template.HasTemplate(r.Path) || template.HasTemplate(string(r.Body)) ||
		slices.ContainsFunc(r.Header, func(f service.Field) bool { return template.HasTemplate(f.Value) })
}
