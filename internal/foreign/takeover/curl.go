package takeover

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// curl is curl 8, with those flags of its manual page that concern HTTP.
var curl = &tool{
	name: "curl", purpose: "one HTTP request",
	letters: true, yield: "-T -D -o",
	options: slices.Concat(curlRequest, curlWay, curlShow),
	fits:    func(c *command) bool { return len(c.operands) <= 1 },
	settle:  settleCurl,
}

var curlRequest = []option{
	{"-X --request", method, to("-m")},
	{"-I --head", none, on("-m", "HEAD")},
	{"-H --header", header, by(headerLine.page, curlHeader)},
	{"-d --data --data-ascii", text, data("-d")},
	{"--data-raw", text, data("--data-raw")},
	{"--data-binary", text, data("--data-binary")},
	{"--data-urlencode", text, data("--data-urlencode")},
	{"--json", valueOf("JSON, or @FILE", func(v string) bool { return strings.HasPrefix(v, "@") || looksJSON(v) }), data("--json")},
	{"-G --get", none, later("-G", "the data in the target")},
	{"--url-query", text, later("--url-query", "in the target")},
	{"--url", text, by("the target", func(c *command, value string) error {
		c.operands = append(c.operands, value)
		return nil
	})},
	{"-F --form --form-string", text, no(noForm)},
	{"-T --upload-file", file, by(code("-m PUT -D FILE"), upload)},
	{"-u --user", user, to("--user")},
	{"--oauth2-bearer", text, to("--bearer")},
	{"--basic", none, without("it is what --user does")},
	{"--digest --ntlm --negotiate --anyauth", none, no("only a name and a password are sent: write --user NAME:PASSWORD, or --bearer TOKEN")},
	{"--aws-sigv4", text, no("requests are not signed for AWS")},
	{"-b --cookie", text, by(code("-H 'Cookie: …'"), func(c *command, value string) error {
		if value == "" {
			return nil
		}
		if !strings.Contains(value, "=") {
			return c.refusal("a file of cookies is not read: write them as -H 'Cookie: name=value'")
		}
		c.set("-H", "Cookie: "+value)
		return nil
	})},
	{"-c --cookie-jar", butNot("a file", isWhole), without("cookies of answers are not kept: each call is the same")},
	{"-A --user-agent", text, asHeader("User-Agent")},
	{"-e --referer", text, by(code("-H 'Referer: …'"), func(c *command, value string) error {
		if value, _, _ = strings.Cut(value, ";auto"); value != "" {
			c.set("-H", "Referer: "+value)
		}
		return nil
	})},
	{
		"-r --range", valueOf("a range, as in 0-99", func(v string) bool { return strings.Contains(v, "-") }),
		by(code("-H 'Range: bytes=…'"), func(c *command, value string) error {
			c.set("-H", "Range: bytes="+value)
			return nil
		}),
	},
	{"--compressed", none, by(code("-H 'Accept-Encoding: gzip'"), func(c *command, _ string) error {
		c.set("-H", "Accept-Encoding: gzip")
		c.tell("--compressed asks for gzip; answers are counted as they come, compressed")
		return nil
	})},
	{"-z --time-cond", butNot("a date", isClock), no("write it as -H 'If-Modified-Since: …'")},
	{"-C --continue-at", text, no("write it as -H 'Range: bytes=…'")},
}

var curlWay = []option{
	{"-0 --http1.0 --http0.9", none, no("wirelab speaks HTTP/1.1, 2 and 3: write --http 1.1")},
	{"--http1.1", none, on("--http", "1.1")},
	{"--http2 --http2-prior-knowledge", none, on("--http", "2")},
	{"--http3 --http3-only", none, on("--http", "3")},
	{"-k --insecure", none, on("-k")},
	{"--cacert", file, to("--cacert")},
	{"--capath", file, no("write the certificates to one file, and give --cacert FILE")},
	{"-E --cert", text, by(code("--cert"), func(c *command, value string) error {
		if name, _, has := strings.Cut(value, ":"); has {
			return c.refusal("a key with a password is not read: write it to a file without, and give --cert " + quote(excerpt(name)) + " --key FILE")
		}
		c.set("--cert", value)
		return nil
	})},
	{"--key", file, to("--key")},
	{"--pass", text, no("a key with a password is not read: write it to a file without, and give --key FILE")},
	{"--cert-type --key-type", valueOf("PEM", func(v string) bool { return strings.EqualFold(v, "PEM") }), without("PEM is what is read")},
	{"-1 --tlsv1 --tlsv1.0 --tlsv1.1 --tlsv1.2 --tlsv1.3", none, without("TLS 1.3 is spoken, or 1.2 where the server lacks it")},
	{"--tls-max --ciphers --tls13-ciphers --curves", text, no("TLS is spoken with the usual suites: leave it out")},
	{"-x --proxy -U --proxy-user --socks5 --socks5-hostname --socks4 --socks4a --preproxy", text, no(noProxy)},
	{"-p --proxytunnel", none, no(noProxy)},
	{"--noproxy", text, without("no proxy is used anyway")},
	{"--resolve", text, connectTo("--resolve")},
	{"--connect-to", text, connectTo("--connect-to")},
	{"--unix-socket", file, to("--unix-socket")},
	{"--abstract-unix-socket", text, no("a socket has a path: write --unix-socket PATH")},
	{"-m --max-time", seconds, inSeconds("--timeout")},
	{"--connect-timeout", seconds, without(noConnecting)},
	{"-4 --ipv4 -6 --ipv6", none, without("an address in the target says the same")},
	{"--interface --local-port", text, no("the kernel chooses the address that calls")},
	{"-Y -y --speed-limit --speed-time", number, without("a call that is too slow ends by --timeout")},
	{"--limit-rate --rate", text, no("calls go as fast as they go: write --rps N for a rate, or --link rate=… for a slow network")},
	{"--no-keepalive", none, without("it concerns what TCP sends on an idle connection")},
	{"--keepalive-time", number, without("it concerns what TCP sends on an idle connection")},
	{"--tcp-nodelay --tcp-fastopen --no-alpn --path-as-is --ssl-no-revoke --disallow-username-in-url", none, without("it changes nothing here")},
	{"-L --location --location-trusted", none, without(noRedirects)},
	{"--post301 --post302 --post303", none, without(noRedirects)},
	{"--max-redirs", text, without(noRedirects)},
	{"--retry --retry-delay --retry-max-time", number, without("a call that fails counts as failed")},
	{"--retry-connrefused --retry-all-errors", none, without("a call that fails counts as failed")},
	{"-: --next", none, no("give a command for each request, or several by --rows")},
	{"-K --config", file, no("a file of flags is not read: write them out")},
}

var curlShow = []option{
	{"-s --silent -S --show-error -i --include --show-headers -v --verbose -# --progress-bar -N --no-buffer", none, without(noShow)},
	{"-f --fail --fail-with-body --fail-early", none, without("an answer of 400 and above counts as failed; --fail-if makes the run fail")},
	{"-o --output", text, by("left out: answers are not kept", func(c *command, _ string) error {
		c.tell("%s is left out: answers are not kept", c.written)
		return nil
	})},
	{"-O --remote-name --remote-name-all -J --remote-header-name -R --remote-time --create-dirs --trace-time --trace-ids --styled-output --no-progress-meter", none, without(noShow)},
	{"-D --dump-header --trace --trace-ascii --stderr", butNot("a file", isClock), without(noShow)},
	{"-w --write-out", text, without("times are what a run is for")},
	{"-g --globoff", none, later("-g", "left out: URLs are not unfolded")},
	{"-Z --parallel -q --disable -a --append", none, without("it changes nothing for one request")},
	{"-h --help -V --version -M --manual", none, no("it calls nothing")},
}

func looksJSON(value string) bool {
	value = strings.TrimSpace(value)
	return value != "" && strings.IndexByte(`{["0123456789-tfn`, value[0]) >= 0
}

// curlHeader is field, and knows that an empty value takes a field of curl's own away.
func curlHeader(c *command, value string) error {
	name, rest, colon := strings.Cut(value, ":")
	if colon && strings.TrimSpace(rest) == "" && !strings.EqualFold(name, "Host") {
		c.tell("-H '%s:' is left out: it takes away what only curl sends", excerpt(name))
		return nil
	}
	return field(c, value)
}

// upload sends a file by PUT.
func upload(c *command, value string) error {
	c.keep("-T", value)
	if !c.has("-m") {
		c.set("-m", "PUT")
	}
	if value == "-" || value == "." {
		c.set("-d", "@-")
		return nil
	}
	if strings.HasPrefix(value, "{") {
		return c.refusal("one file is sent: give -D FILE")
	}
	c.set("-D", value)
	return nil
}

func settleCurl(c *command) error {
	if c.misfitGlob() {
		return errors.New("the URL has brackets, which curl unfolds to several: give one URL, or several requests by --rows (-g says that they are meant)")
	}
	if err := c.oneTarget(); err != nil {
		return err
	}
	if err := settleData(c); err != nil {
		return err
	}
	if len(c.kept["-T"]) > 0 && len(c.kept["data"]) > 0 {
		return errors.New("-T and -d of curl: a file to upload and data are two bodies: give one (a content type is -T type/subtype)")
	}
	if len(c.operands) != 1 {
		return nil
	}
	target, err := url.Parse(c.operands[0])
	if err != nil && !strings.Contains(c.operands[0], "://") { // an address with a port is no URL as it stands
		c.operands[0] = "http://" + c.operands[0]
		target, err = url.Parse(c.operands[0])
	}
	if err != nil {
		return errors.New("target " + excerpt(c.operands[0]) + ": it is no URL")
	}
	if target.User != nil {
		if !c.has("--user") {
			password, _ := target.User.Password()
			c.set("--user", target.User.Username()+":"+password)
		}
		target.User = nil
		c.operands[0] = target.String()
	}
	if sent := c.kept1("-T"); sent != "" && strings.HasSuffix(target.Path, "/") && len(sent) > 1 {
		c.operands[0] += url.PathEscape(sent[strings.LastIndexByte(sent, '/')+1:])
	}
	if err := addQuery(c); err != nil {
		return err
	}
	return c.redirectAddress()
}

// misfitGlob reports whether curl would make several URLs of one.
func (c *command) misfitGlob() bool {
	if len(c.kept["-g"]) > 0 || !c.pasted {
		return false
	}
	return slices.ContainsFunc(c.operands, func(o string) bool {
		_, path, _ := strings.Cut(o, "://")
		if at := strings.IndexByte(path, '/'); at >= 0 && strings.HasPrefix(path, "[") {
			path = path[at:] // an address of version 6
		}
		return strings.ContainsAny(path, "{}[]")
	})
}
