package takeover

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// What the tools for HTTP have in common.

// field takes a line of a header as the tools write it. A Host is wirelab's --host.
func field(c *command, text string) error {
	name, value, colon := strings.Cut(text, ":")
	value = strings.TrimSpace(value)
	switch {
	case strings.HasPrefix(text, "@"):
		return c.refusal("a file of headers is not read: write each as -H 'Name: value'")
	case !colon && strings.HasSuffix(text, ";"): // curl's way to send an empty one
		c.set("-H", strings.TrimSuffix(text, ";")+":")
	case !colon:
		return c.refusal(fmt.Sprintf("%q is no header: write -H 'Name: value'", excerpt(text)))
	case strings.EqualFold(name, "Host"):
		if value == "" {
			return c.refusal("HTTP asks for a Host: leave the flag out")
		}
		c.set("--host", value)
	default:
		c.set("-H", text)
	}
	return nil
}

var headerLine = by(code("-H")+"; Host: "+code("--host"), field)

// body takes data that means what it says: one that begins with @ would name a file here.
func body(c *command, text string) error {
	if strings.HasPrefix(text, "@") && c.pasted { // typed here, it is a file, as wirelab has it
		return c.refusal("data that begins with @ would name a file here: write it to a file, and give -D FILE")
	}
	c.keep("body", text)
	c.set("-d", text)
	return nil
}

// calls says whether a line is one of HTTP load: one target at most, and one body.
func calls(c *command) bool { return len(c.operands) <= 1 && len(c.kept["body"]) <= 1 }

var literalBody = by(code("-d"), body)

const (
	noProxy      = "wirelab calls the service itself: name it as the target, or load the proxy as http://PROXY/… with --host"
	noRedirects  = "a redirect is an answer here, and is not followed; name where it leads as the target"
	noForm       = "multipart forms are not made: write the body to a file, and give -m POST -D FILE -T 'multipart/form-data; boundary=…'"
	noEngine     = "wirelab chooses how many threads send"
	noShow       = "it only concerns what is printed"
	noConnecting = "--timeout bounds a call with its connecting"
)

// oneTarget settles the URL: there is one, and it has a scheme.
func (c *command) oneTarget() error {
	if !c.pasted {
		return nil
	}
	switch len(c.operands) {
	case 0:
		return fmt.Errorf("the %s command names no URL: write it behind the flags, as in http://127.0.0.1:8080/", c.tool.name)
	case 1:
	default:
		return fmt.Errorf("the %s command has more than one URL (%s, %s): give a command for each, or several requests by --rows", c.tool.name, excerpt(c.operands[0]), excerpt(c.operands[1]))
	}
	target, err := whole(c.operands[0])
	c.operands[0] = target
	return err
}

// whole puts http:// before a URL without a scheme, and refuses other schemes.
func whole(target string) (string, error) {
	scheme, _, has := strings.Cut(target, "://")
	switch {
	case !has:
		return "http://" + target, nil
	case strings.EqualFold(scheme, "http"), strings.EqualFold(scheme, "https"):
		return target, nil
	}
	return target, fmt.Errorf("target %s: the scheme is %q: wirelab load calls http, https, grpc and grpcs", excerpt(target), excerpt(scheme))
}

// connectTo takes NAME:PORT:ADDRESS:PORT, or with resolve NAME:PORT:ADDRESS, for settle.
func connectTo(key string) rule {
	return later(key, "the address in the target, and "+code("--host"))
}

// redirectAddress has the target's address be another than its name.
func (c *command) redirectAddress() error {
	for _, text := range append(c.kept["--connect-to"], c.kept["--resolve"]...) {
		name, port, address, err := splitRedirect(text)
		if err != nil {
			return err
		}
		if len(c.operands) != 1 {
			continue
		}
		target, err := url.Parse(c.operands[0])
		if err != nil {
			return fmt.Errorf("target %s: it is no URL", excerpt(c.operands[0]))
		}
		if name != "" && !strings.EqualFold(target.Hostname(), name) || port != "" && usualPort(target) != port {
			c.tell("the address for %s is left out: the target is another", excerpt(text))
			continue
		}
		c.replaceHost(target, address)
	}
	return nil
}

func (c *command) replaceHost(target *url.URL, address string) {
	named := target.Host
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = address, target.Port()
	}
	if host == "" {
		host = target.Hostname()
	}
	if target.Host = host; port != "" {
		target.Host = net.JoinHostPort(host, port)
	} else if strings.Contains(host, ":") {
		target.Host = "[" + host + "]"
	}
	if !c.has("--host") {
		c.set("--host", named)
	}
	c.operands[0] = target.String()
	c.tell("%s is called at %s", named, target.Host)
}

func usualPort(target *url.URL) string {
	switch {
	case target.Port() != "":
		return target.Port()
	case target.Scheme == "https":
		return "443"
	}
	return "80"
}

// splitRedirect splits NAME:PORT:ADDRESS[:PORT]; an address of version 6 is in brackets.
func splitRedirect(text string) (name, port, address string, err error) {
	name, rest, ok := strings.Cut(strings.TrimPrefix(text, "+"), ":")
	if ok {
		port, address, ok = strings.Cut(rest, ":")
	}
	if !ok {
		return "", "", "", errors.New("the address " + excerpt(text) + ": want NAME:PORT:ADDRESS")
	}
	address, _, _ = strings.Cut(address, ",") // curl takes several, and tries them in turn
	if host, bracketed := strings.CutPrefix(address, "["); bracketed {
		host, after, _ := strings.Cut(host, "]")
		if address = host; len(after) > 1 {
			address = "[" + host + "]" + after
		}
	}
	address = strings.TrimSuffix(address, ":")
	return name, port, address, nil
}
