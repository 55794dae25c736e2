package flags

import (
	"fmt"
	"strconv"
	"strings"
)

// HeaderField sets a header field from a line such as "Name: value".
func HeaderField(c *Command, text string) error {
	name, value, colon := strings.Cut(text, ":")
	value = strings.TrimSpace(value)
	switch {
	case strings.HasPrefix(text, "@"):
		return c.Refuse("@ names no file of headers in this tool: write each as -H 'Name: value'")
	case !colon && strings.HasSuffix(text, ";"): // curl writes an empty field with a semicolon
		c.Set("-H", strings.TrimSuffix(text, ";")+":")
	case !colon:
		return c.Refuse(fmt.Sprintf("%q is not a header: write -H 'Name: value'", Excerpt(text)))
	case value == "" && strings.EqualFold(name, "Host"):
		return c.Refuse("HTTP requires a Host: leave the flag out")
	default:
		c.Set("-H", text)
	}
	return nil
}

// HeaderLine is the rule for flags whose value is a header line.
var HeaderLine = Function(Code("-H"), HeaderField)

// body sets data that the tool sends unchanged. It refuses data that begins with @, because wirelab
// would read a file.
func body(c *Command, text string) error {
	if strings.HasPrefix(text, "@") && c.Pasted { // in a line for wirelab load, @ names a file
		return c.Refuse("data that begins with @ would name a file here: write it to a file, and give -D FILE")
	}
	c.Keep("body", text)
	c.Set("-d", text)
	return nil
}

// CallsHTTP reports whether a line has at most one target and one body.
func CallsHTTP(c *Command) bool { return len(c.Operands) <= 1 && len(c.Kept("body")) <= 1 }

// Body is the rule for flags with data that the tool sends unchanged.
var Body = Function(Code("-d"), body)

// Reasons that the rules of several tools give.
const (
	ProxyNote          = "wirelab calls the service itself: name it as the target, or load the proxy as http://PROXY/… with --host"
	RedirectNote       = "a redirect is an answer here, and is not followed; give its destination as the target"
	ThreadsNote        = "wirelab chooses how many threads send"
	OutputOnlyNote     = "the flag changes only the output"
	ConnectTimeoutNote = "--timeout includes the time to connect"
)

// OneTarget checks that a pasted command has exactly one URL. It adds a missing scheme.
func (c *Command) OneTarget() error {
	if !c.Pasted {
		return nil
	}
	switch len(c.Operands) {
	case 0:
		if c.Has("--targets") {
			return nil
		}
		return fmt.Errorf("the %s command has no URL: write it after the flags, as in http://127.0.0.1:8080/", c.tool.Name)
	case 1:
	default:
		return fmt.Errorf("the %s command has more than one URL (%s, %s): give one command per URL, or write them into a file for wirelab load --targets FILE", c.tool.Name, Excerpt(c.Operands[0]), Excerpt(c.Operands[1]))
	}
	target, err := withScheme(c.Operands[0])
	c.Operands[0] = target
	return err
}

// withScheme adds http:// to a URL without a scheme. It refuses schemes other than HTTP's.
func withScheme(target string) (string, error) {
	scheme, _, has := strings.Cut(target, "://")
	switch {
	case !has:
		return "http://" + target, nil
	case strings.EqualFold(scheme, "http"), strings.EqualFold(scheme, "https"):
		return target, nil
	}
	return target, fmt.Errorf("target %s: the scheme is %q: wirelab load calls http, https, grpc and grpcs", Excerpt(target), Excerpt(scheme))
}

// Slashed converts pkg.Service.Method to pkg.Service/Method.
func Slashed(method string) string {
	if at := strings.LastIndexByte(method, '.'); at > 0 && !strings.Contains(method, "/") {
		return method[:at] + "/" + method[at+1:]
	}
	return strings.TrimPrefix(method, "/")
}

// StandardInput sets data. The value @ means standard input, as in grpcurl.
func StandardInput(c *Command, value string) error {
	if value == "@" {
		value = "@-"
	} else if strings.HasPrefix(value, "@") && c.Pasted {
		return c.Refuse("only @ alone means standard input: data from a file is -D FILE")
	}
	c.Set("-d", value)
	return nil
}

// PositiveRate sets a total rate. A rate of zero means no rate.
func PositiveRate(c *Command, value string) error {
	if n, err := strconv.ParseFloat(value, 64); err == nil && n > 0 {
		c.Set("--rps", value)
		return nil
	}
	c.Note("%s %s is left out: zero means no rate", c.Written, value)
	return nil
}

// OwnConnections gives each client its own connection, as most HTTP tools do.
func (c *Command) OwnConnections() {
	if !c.Has("--conn") {
		c.Set("--conn", "per-worker")
	}
}

// Cleartext combines target and method into one URL for gRPC without TLS.
func (c *Command) Cleartext() {
	address := c.Operands[0]
	if strings.HasPrefix(address, "unix:") || strings.Contains(address, "://") {
		return // Unix sockets always use cleartext
	}
	c.Operands[0] = "grpc://" + address
	if method := c.Get("--call"); method != "" {
		c.Operands[0] += "/" + method
		c.Unset("--call")
	}
}

// HasHeader reports whether the command sets a header field with this name.
func (c *Command) HasHeader(name string) bool {
	for _, s := range c.settings {
		if s.flag == "-H" && len(s.value) > 0 {
			if has, _, _ := strings.Cut(s.value[0], ":"); strings.EqualFold(strings.TrimSpace(has), name) {
				return true
			}
		}
	}
	return false
}

// Certificates lists the TLS certificate flags that several tools share.
var Certificates = []Option{
	{"--cacert", File, To("--cacert")},
	{"--cert", File, To("--cert")},
	{"--key", File, To("--key")},
}

// HeyRequest lists the request flags of hey. oha has the same flags.
var HeyRequest = []Option{
	{"-z", Duration, To("-z")},
	{"-H", Header, HeaderLine},
	{"-A", MediaType, AsHeader("Accept: ")},
	{"-d", Text, Body},
	{"-D", File, To("-D")},
	{"-T", MediaType, To("-T")},
	{"-a", User, To("--user")},
	{"--disable-compression", None, Ignored("wirelab does not ask for compression")},
	{"--disable-keepalive", None, On("--conn", "new")},
}
