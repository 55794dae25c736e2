package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/feed"
	"wirelab.dev/internal/wire/service/reach"
	"wirelab.dev/internal/wire/service/template"
)

// define turns the target and the flags into the definition for a worker, and the first request.
func (l *loading) define(ctx context.Context, t service.Target) (*service.Definition, *service.Request, error) {
	d, err := l.describe(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	if d.Feed == nil {
		return d, &d.Requests[0], nil
	}
	if err := feed.Check(d.Feed); err != nil {
		return nil, nil, usage(err)
	}
	parsed, err := feed.Parse(d.Feed)
	if err != nil {
		return nil, nil, usage(err)
	}
	first, err := parsed.Source(feed.Client{Of: 1, Seed: l.seed}).Next()
	return d, first, err
}

// describe returns the definition. Its requests are as they are sent, or templates.
func (l *loading) describe(ctx context.Context, t service.Target) (*service.Definition, error) {
	d := &service.Definition{
		Wire: t.Wire, Network: t.Network(), Address: t.Socket, Authority: t.Authority(), Timeout: l.timeout,
	}
	if t.Secure {
		var err error
		if d.TLS, err = l.identity.read(t); err != nil {
			return nil, usage(err)
		}
	} else if l.identity != (identityFlags{}) && l.identity.trust != (trustFlags{insecure: true}) {
		return nil, usage(errors.New("--cacert, --cert and --key are about TLS: write https:// or grpcs://"))
	}
	request, err := l.request.read(t)
	if err != nil {
		return nil, usage(err)
	}
	if l.request.host != "" { // a field of the header may have said it
		d.Authority = l.request.host
	}
	if d.Network == "tcp" {
		if d.Address, err = reach.LookUp(ctx, t); err != nil {
			return nil, err
		}
	}
	d.Requests, d.Random = []service.Request{request}, l.request.random
	if err := errors.Join(l.expect.apply(d), l.trace(d)); err != nil {
		return nil, usage(err)
	}
	if d.Feed, err = l.request.feed(request); err != nil {
		return nil, usage(err)
	}
	if !t.Wire.IsGRPC() {
		return d, nil
	}
	return d, l.findMethod(ctx, t, d)
}

// findMethod finds the method of gRPC that the definition's request calls.
func (l *loading) findMethod(ctx context.Context, t service.Target, d *service.Definition) error {
	found := reach.LookMeanwhile(ctx, d.Network, d.Address)
	defer found.Stop()
	if err := reach.TryConnection(ctx, d); err != nil {
		return reach.DescribeFailure(d, err, found.Result(), reach.DescribeAtMost)
	}
	err := l.grpc.Find(ctx, d, d.Requests[0])
	switch _, is := status.FromError(err); {
	case err == nil:
		return nil
	case is: // what the connection met, not the description
		return reach.DescribeFailure(d, err, found.Result(), reach.DescribeAtMost)
	}
	return fmt.Errorf("%s: %w", t, err)
}

// read makes the request.
func (r *requestFlags) read(t service.Target) (service.Request, error) {
	request := service.Request{Method: r.method, Path: t.Path}
	var err error
	if request.Header, err = r.fields(t); err != nil {
		return request, err
	}
	if request.Body, err = r.body(); err != nil {
		return request, err
	}
	if t.Connect {
		r.connect(&request)
	}
	if request.Method == "" {
		request.Method = http.MethodGet
		if len(request.Body) > 0 {
			request.Method = http.MethodPost
		}
	}
	if !httpguts.ValidHeaderFieldName(request.Method) {
		return request, fmt.Errorf("-m: found %q: want a method of HTTP, as in POST", request.Method)
	}
	return request, nil
}

// connect makes the request a unary call of the Connect protocol, in JSON where the user does
// not say otherwise (https://connectrpc.com/docs/protocol).
func (r *requestFlags) connect(request *service.Request) {
	request.Header = append(request.Header, service.Field{Name: "Connect-Protocol-Version", Value: "1"})
	if r.kind == "" {
		request.Header = append(request.Header, service.Field{Name: "Content-Type", Value: "application/json"})
		if len(request.Body) == 0 {
			request.Body = []byte("{}")
		}
	}
}

// feed returns what makes requests while calls are sent; nil if they are all known before.
func (r *requestFlags) feed(request service.Request) (*service.Feed, error) {
	f := &service.Feed{Requests: []service.Request{request}, Random: r.random}
	if r.rows != "" {
		file, err := os.Open(r.rows)
		if err != nil {
			return nil, fmt.Errorf("--rows: %w", err)
		}
		defer func() { _ = file.Close() }()
		if f.Rows, err = feed.ReadRows(r.rows, file); err != nil {
			return nil, fmt.Errorf("--rows: %w", err)
		}
		return f, nil
	}
	texts := []string{request.Path, string(request.Body)}
	for _, field := range request.Header {
		texts = append(texts, field.Value)
	}
	if !slices.ContainsFunc(texts, template.Has) {
		return nil, nil
	}
	return f, nil
}

// fields returns the fields of the header.
func (r *requestFlags) fields(t service.Target) ([]service.Field, error) {
	var fields []service.Field
	for _, text := range r.headers {
		name, value, found := strings.Cut(text, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("-H: found %q: want a name, a colon and a value, as in 'Accept: text/html'", text)
		}
		if strings.EqualFold(name, "host") {
			r.host = value
			continue
		}
		fields = append(fields, service.Field{Name: textproto.CanonicalMIMEHeaderKey(name), Value: value})
	}
	user := r.user
	if user == "" && t.User != nil {
		password, _ := t.User.Password()
		user = t.User.Username() + ":" + password
	}
	switch {
	case user != "" && r.bearer != "":
		return nil, errors.New("--user and --bearer: give one of them")
	case user != "":
		fields = append(fields, service.Field{Name: "Authorization", Value: "Basic " + base64.StdEncoding.EncodeToString([]byte(user))})
	case r.bearer != "":
		fields = append(fields, service.Field{Name: "Authorization", Value: "Bearer " + r.bearer})
	}
	if r.kind != "" {
		fields = append(fields, service.Field{Name: "Content-Type", Value: r.kind})
	}
	return fields, nil
}

// mostBody bounds what is read as a body.
const mostBody = 64 << 20

// body returns the body of -d or -D.
func (r *requestFlags) body() ([]byte, error) {
	switch file, isFile := strings.CutPrefix(r.data, "@"); {
	case r.data != "" && r.file != "":
		return nil, errors.New("--data and --data-file: give one of them")
	case r.file != "":
		return readBody("--data-file", r.file)
	case r.data == "-" || r.data == "@-":
		return io.ReadAll(io.LimitReader(os.Stdin, mostBody))
	case isFile:
		return readBody("--data", file)
	}
	if status, err := os.Stat(r.data); err == nil && status.Mode().IsRegular() {
		return readBody("--data", r.data)
	}
	return []byte(r.data), nil
}

func readBody(flag, path string) ([]byte, error) {
	body, err := plan.ReadFile(path, mostBody)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return body, nil
}

// read reads the files of the flags.
func (i *identityFlags) read(t service.Target) (*service.TLS, error) {
	as := &service.TLS{ServerName: t.Host}
	if i.trust.insecure && i.trust.rootFile != "" {
		return nil, errors.New("--insecure and --cacert: give one of them")
	}
	as.Trust = secure.Trust{SkipVerify: i.trust.insecure}
	if (i.certificate == "") != (i.key == "") {
		return nil, errors.New("--cert and --key: give both of them")
	}
	for _, file := range []struct {
		flag, name string
		into       *[]byte
	}{{"--cacert", i.trust.rootFile, &as.Trust.RootPEM}, {"--cert", i.certificate, &as.Certificate}, {"--key", i.key, &as.Key}} {
		if file.name == "" {
			continue
		}
		var err error
		if *file.into, err = os.ReadFile(file.name); err != nil {
			return nil, fmt.Errorf("%s: %w", file.flag, err)
		}
	}
	return as, nil
}
