package service

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
)

// A Target is a service's address as the user wrote it.
type Target struct {
	Wire   Wire
	Secure bool   // the service uses TLS
	Host   string // a name or an address, without brackets; localhost for a unix socket
	Port   string
	Socket string // path of a unix socket; empty means not a unix socket
	Path   string // includes the query; for gRPC: /pkg.Service/Method, or empty
	// Connect says that unary calls use the Connect protocol.
	Connect bool
	User    *url.Userinfo
	// Dial holds addresses, as HOST:PORT, to connect to in place of Host and Port.
	Dial []string
	// Policy, NameServer and LookUpEvery are those of the AddressRules.
	Policy      Policy
	NameServer  string
	LookUpEvery time.Duration
}

type scheme struct {
	name   string
	wire   Wire
	secure bool
	port   string // default port; empty means none
}

var schemes = []scheme{
	{"http", HTTP1, false, "80"},
	{"https", HTTP1, true, "443"},
	{"grpc", GRPC, false, ""},
	{"grpcs", GRPC, true, "443"},
	{"connect", HTTP1, false, "80"},
	{"connects", HTTP1, true, "443"},
	{"ws", WebSocket, false, "80"},
	{"wss", WebSocket, true, "443"},
}

var errTargetSyntax = errors.New("want a URL, as in http://127.0.0.1:8080/path, grpc://127.0.0.1:50051/pkg.Service/Method, ws://127.0.0.1:8080/chat, or unix:/path/of/a/socket")

// ParseTarget parses a target. If the text has no scheme, ParseTarget uses the scheme in usual.
func ParseTarget(text, usual string) (Target, error) {
	if socket, is := strings.CutPrefix(text, "unix:"); is {
		socket = strings.TrimPrefix(socket, "//") // gRPC allows two slashes before the path
		if socket == "" {
			return Target{}, fmt.Errorf("target unix: names no socket: %w", errTargetSyntax)
		}
		return Target{Wire: GRPC, Host: "localhost", Socket: path.Clean(socket)}, nil
	}
	if !strings.Contains(text, "://") {
		text = usual + "://" + text
	}
	address, template := splitTemplate(text)
	where, err := url.Parse(address)
	if err != nil {
		if wrapped, is := errors.AsType[*url.Error](err); is {
			err = wrapped.Err
		}
		return Target{}, fmt.Errorf("target %s: %w: %w", text, err, errTargetSyntax)
	}
	for _, s := range schemes {
		if s.name == where.Scheme {
			t, err := s.newTarget(text, where)
			if template != "" && !s.wire.IsGRPC() {
				t.Path = template
			}
			return t, err
		}
	}
	return Target{}, fmt.Errorf("target %s: the scheme is %q: %w", text, where.Scheme, errTargetSyntax)
}

// splitTemplate splits off the part with a template, which cannot be parsed as a URL yet.
func splitTemplate(text string) (address, template string) {
	scheme, rest, _ := strings.Cut(text, "://")
	at := strings.IndexAny(rest, "/?")
	if at < 0 || !strings.Contains(rest[at:], "{{") {
		return text, ""
	}
	template = rest[at:]
	if template[0] == '?' {
		template = "/" + template
	}
	return scheme + "://" + rest[:at], template
}

func (s scheme) newTarget(text string, where *url.URL) (Target, error) {
	t := Target{Wire: s.wire, Secure: s.secure, Host: where.Hostname(), Port: cmp.Or(where.Port(), s.port), User: where.User}
	if t.Host == "" {
		return t, fmt.Errorf("target %s names no host: %w", text, errTargetSyntax)
	}
	if t.Port == "" {
		return t, fmt.Errorf("target %s names no port, and gRPC has no default port: write the port after the host, as in grpc://%s:50051", text, t.Host)
	}
	if _, err := net.LookupPort("tcp", t.Port); err != nil {
		return t, fmt.Errorf("target %s: the port is %q: want 1 to 65535", text, t.Port)
	}
	t.Connect = strings.HasPrefix(where.Scheme, "connect")
	if s.wire.IsGRPC() || t.Connect {
		t.Path = strings.TrimSuffix(where.Path, "/")
		if t.Path != "" && strings.Count(t.Path, "/") < 2 || s.wire.IsGRPC() && strings.Count(t.Path, "/") > 2 || t.Connect && t.Path == "" {
			return t, fmt.Errorf("target %s: the method is %q: want /pkg.Service/Method", text, t.Path)
		}
		return t, nil
	}
	t.Path = where.RequestURI()
	return t, nil
}

// Network returns the network of the address: tcp or unix.
func (t Target) Network() string {
	if t.Socket != "" {
		return "unix"
	}
	return "tcp"
}

// Authority returns the server's name for Host and :authority.
func (t Target) Authority() string {
	usual := slices.ContainsFunc(schemes, func(s scheme) bool {
		return s.wire == HTTP1 && s.secure == t.Secure && s.port == t.Port
	})
	if t.Port == "" || usual && !t.Wire.IsGRPC() {
		if strings.Contains(t.Host, ":") {
			return "[" + t.Host + "]"
		}
		return t.Host
	}
	return net.JoinHostPort(t.Host, t.Port)
}

// String returns the target as a URL.
func (t Target) String() string {
	scheme := "http"
	switch {
	case t.Wire.IsGRPC():
		scheme = "grpc"
	case t.Connect:
		scheme = "connect"
	case t.Wire == WebSocket:
		scheme = "ws"
	}
	if t.Secure {
		scheme += "s"
	}
	if t.Socket != "" {
		return "unix:" + t.Socket + t.Path
	}
	return scheme + "://" + t.Authority() + t.Path
}
