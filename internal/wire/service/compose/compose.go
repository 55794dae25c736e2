// Package compose makes the requests of a load from the user's options: method, header, credentials
// and body. It reads the files and the environment variables that the options name, so that a run
// never stores their values.
//
// This package must not know how requests are sent.
package compose

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"wirelab.dev/internal/base/secret"
	"wirelab.dev/internal/wire/service"
)

// Options holds what the user says about a request.
type Options struct {
	Method  string
	Headers []string // "Name: value", or @FILE with one such field per line
	Data    string   // text, @FILE, the name of a file, or - for standard input
	File    string   // file with the body
	Forms   []string // parts of a multipart form
	Kind    string   // Content-Type of the body
	User    string   // NAME:PASSWORD, @FILE, or $NAME
	Bearer  string   // token, @FILE, or $NAME
	Targets *Targets // the requests, if there are several; the other options are for all of them
}

// A Request is a composed request.
type Request struct {
	service.Request                   // the first one
	All             []service.Request // at least one
	Host            string            // of the header field Host; empty means the usual host
	Notes           []string          // choices that the user did not make, and doubts, as lines
}

// Methods are the usual methods of HTTP.
var Methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions}

// Compose makes the request for a target.
func (o *Options) Compose(t service.Target) (*Request, error) {
	r := &Request{Request: service.Request{Method: o.Method, Path: t.Path}}
	if err := errors.Join(o.addHeader(r, t), o.addBody(r, t)); err != nil {
		return nil, err
	}
	if t.Connect {
		r.makeConnectCall()
	} else if !t.Wire.IsGRPC() && t.Wire != service.WebSocket { // their bodies are messages
		r.checkKind()
	}
	if o.Targets != nil {
		return r, o.Targets.compose(r, o.Method)
	}
	var err error
	if r.Method, err = methodOf(r.Method, len(r.Body) > 0 && t.Wire != service.WebSocket); err != nil {
		return nil, fmt.Errorf("-m: %w", err)
	}
	r.All = []service.Request{r.Request}
	return r, nil
}

// methodOf returns the method of a request for which the user gave a method, or none.
func methodOf(given string, hasBody bool) (string, error) {
	standard := strings.ToUpper(given)
	switch {
	case slices.Contains(Methods, standard):
		return standard, nil // names of methods are case-sensitive, and nobody means another one by post
	case given == "" && hasBody:
		return http.MethodPost, nil
	case given == "":
		return http.MethodGet, nil
	case !httpguts.ValidHeaderFieldName(given):
		return "", fmt.Errorf("found %q: want an HTTP method, as in POST", given)
	}
	return given, nil
}

func basicCredentials(user string) service.Field {
	return service.Field{Name: "Authorization", Value: "Basic " + base64.StdEncoding.EncodeToString([]byte(user))}
}

// makeConnectCall makes the request a unary call of the Connect protocol, by default in JSON
// (https://connectrpc.com/docs/protocol).
func (r *Request) makeConnectCall() {
	r.addField("Connect-Protocol-Version", "1")
	if r.kind() == "" {
		r.addField("Content-Type", "application/json")
		if len(r.Body) == 0 {
			r.Body = []byte("{}")
		}
	}
}

func (r *Request) addField(name, value string) {
	r.Header = append(r.Header, service.Field{Name: name, Value: value})
}

// kind returns the request's Content-Type, or "".
func (r *Request) kind() string {
	for _, f := range r.Header {
		if f.Name == "Content-Type" {
			return f.Value
		}
	}
	return ""
}

func (r *Request) note(format string, values ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf("note: "+format, values...))
}

const maxHeaderBytes = 1 << 20

func (o *Options) addHeader(r *Request, t service.Target) error {
	for _, text := range o.Headers {
		fields, err := readHeader(text)
		if err != nil {
			return err
		}
		for _, f := range fields {
			if f.Name == "Host" {
				r.Host = f.Value
				continue
			}
			r.addField(f.Name, f.Value)
		}
	}
	user, bearer, err := o.credentials(t)
	switch {
	case err != nil:
		return err
	case user != "" && bearer != "":
		return errors.New("--user and --bearer: give one of them")
	case user != "":
		r.Header = append(r.Header, basicCredentials(user))
	case bearer != "":
		r.addField("Authorization", "Bearer "+bearer)
	}
	if o.Kind != "" {
		r.addField("Content-Type", o.Kind)
	}
	return nil
}

// readHeader returns the field in a value of -H, or the fields in the file that it names.
func readHeader(text string) ([]service.Field, error) {
	if name, isFile := strings.CutPrefix(text, "@"); isFile {
		content, err := readFile(name, maxHeaderBytes)
		if err != nil {
			return nil, fmt.Errorf("-H: %w", err)
		}
		all, err := service.ParseFields(string(content))
		if err != nil {
			return nil, fmt.Errorf("-H %s: %w", text, err)
		}
		return all, nil
	}
	f, is := service.ParseField(text)
	if !is {
		return nil, fmt.Errorf("-H: found %q: want a name, a colon and a value, as in 'Accept: text/html', or @FILE", text)
	}
	return []service.Field{f}, nil
}

// credentials returns NAME:PASSWORD and the bearer token, which the options may only refer to.
func (o *Options) credentials(t service.Target) (user, bearer string, err error) {
	user = o.User
	switch {
	case user == "" && t.User != nil:
		password, _ := t.User.Password()
		user = t.User.Username() + ":" + password
	case !strings.Contains(user, ":"):
		if user, err = secret.Read(user); err != nil {
			return "", "", fmt.Errorf("--user: %w", err)
		}
	}
	if bearer, err = secret.Read(o.Bearer); err != nil {
		err = fmt.Errorf("--bearer: %w", err)
	}
	return user, bearer, err
}

const maxBodyBytes = 64 << 20

// readFile reads a file of at most limit bytes.
func readFile(name string, limit int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	return readAll(name, file, limit)
}

func readAll(name string, from io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s has more than %d MiB: want a smaller file", name, limit>>20)
	}
	return data, err
}
