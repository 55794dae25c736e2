// Package curl reads commands of curl.
package curl

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"wirelab.dev/internal/foreign/flags"
)

// Tool holds the flags of curl 8 that concern HTTP, as in its manual page.
var Tool = &flags.Tool{
	Name:    "curl",
	Letters: true, Single: true, Yield: "-T -D -o",
	Options: slices.Concat(requestFlags, connectionFlags, outputFlags),
	Fits:    func(c *flags.Command) bool { return len(c.Operands) <= 1 },
	Settle:  settle,
}

var requestFlags = []flags.Option{
	flags.Flag("-X --request", flags.Method, flags.To("-m")),
	flags.Flag("-I --head", flags.None, flags.On("-m", "HEAD")),
	flags.Flag("-H --header", flags.Header, flags.Function(flags.HeaderLine.Page, headerField)),
	flags.Flag("-d --data --data-ascii", flags.Text, data("-d")),
	flags.Flag("--data-raw", flags.Text, data("--data-raw")),
	flags.Flag("--data-binary", flags.Text, data("--data-binary")),
	flags.Flag("--data-urlencode", flags.Text, data("--data-urlencode")),
	flags.Flag("--json", flags.Value("JSON, or @FILE", func(v string) bool { return strings.HasPrefix(v, "@") || looksJSON(v) }), data("--json")),
	flags.Flag("-G --get", flags.None, flags.Kept("-G", "adds the data to the query of the target")),
	flags.Flag("--url-query", flags.Text, flags.Kept("--url-query", "adds the text to the query of the target")),
	flags.Flag("--url", flags.Text, flags.Function("the target", func(c *flags.Command, value string) error {
		c.Operands = append(c.Operands, value)
		return nil
	})),
	flags.Flag("-F --form", flags.Text, flags.To("-F")),
	flags.Flag("--form-string", flags.Text, flags.Either(func(v string) bool {
		return !strings.Contains(v, "=@") && !strings.Contains(v, "=<") && !strings.Contains(v, ";type=")
	},
		flags.To("-F"), flags.Refused("the value would name a file or a type here: write it to a file, and give -F 'NAME=<FILE'"))),
	flags.Flag("-T --upload-file", flags.File, flags.Function(flags.Code("-m PUT -D FILE"), upload)),
	flags.Flag("-u --user", flags.User, flags.To("--user")),
	flags.Flag("--oauth2-bearer", flags.Text, flags.To("--bearer")),
	flags.Flag("--basic", flags.None, flags.Ignored("--user does the same")),
	flags.Flag("--digest --ntlm --negotiate --anyauth", flags.None, flags.Refused("only a name and a password are sent: write --user NAME:PASSWORD, or --bearer TOKEN")),
	flags.Flag("-b --cookie", flags.Text, flags.OneOf(flags.Code("-H 'Cookie: …'"), map[string]flags.Rule{"": flags.Nothing},
		flags.Either(func(v string) bool { return strings.Contains(v, "=") }, flags.AsHeader("Cookie: "),
			flags.Refused("cookie files are not read: write the cookies as -H 'Cookie: name=value'")))),
	flags.Flag("-c --cookie-jar", flags.NoneOf("a file", flags.IsWhole), flags.Ignored("cookies from answers are not stored: all calls are equal")),
	flags.Flag("-A --user-agent", flags.Text, flags.AsHeader("User-Agent: ")),
	flags.Flag("-e --referer", flags.Text, flags.Function(flags.Code("-H 'Referer: …'"), func(c *flags.Command, value string) error {
		if value, _, _ = strings.Cut(value, ";auto"); value != "" {
			c.Set("-H", "Referer: "+value)
		}
		return nil
	})),
	flags.Flag("-r --range", flags.Value("a range, as in 0-99", func(v string) bool { return strings.Contains(v, "-") }), flags.AsHeader("Range: bytes=")),
	flags.Flag("--compressed", flags.None, flags.Function(flags.Code("-H 'Accept-Encoding: gzip'"), func(c *flags.Command, _ string) error {
		c.Set("-H", "Accept-Encoding: gzip")
		c.Note("--compressed asks for gzip; the sizes of answers are compressed sizes")
		return nil
	})),
}

var connectionFlags = []flags.Option{
	flags.Flag("-0 --http1.0 --http0.9", flags.None, flags.Refused("wirelab speaks HTTP/1.1, 2 and 3: write --http 1.1")),
	flags.Flag("--http1.1", flags.None, flags.On("--http", "1.1")),
	flags.Flag("--http2 --http2-prior-knowledge", flags.None, flags.On("--http", "2")),
	flags.Flag("--http3 --http3-only", flags.None, flags.On("--http", "3")),
	flags.Flag("-k --insecure", flags.None, flags.On("-k")),
	flags.Flag("--cacert", flags.File, flags.To("--cacert")),
	flags.Flag("--capath", flags.File, flags.Refused("write the certificates to one file, and give --cacert FILE")),
	flags.Flag("-E --cert", flags.Text, flags.Function(flags.Code("--cert"), func(c *flags.Command, value string) error {
		if name, _, has := strings.Cut(value, ":"); has {
			return c.Refuse("keys with a password are not supported: write the key to a file without a password, and give --cert " + flags.Quote(flags.Excerpt(name)) + " --key FILE")
		}
		c.Set("--cert", value)
		return nil
	})),
	flags.Flag("--key", flags.File, flags.To("--key")),
	flags.Flag("--pass", flags.Text, flags.Refused("keys with a password are not supported: write the key to a file without a password, and give --key FILE")),
	flags.Flag("-1 --tlsv1 --tlsv1.0 --tlsv1.1 --tlsv1.2 --tlsv1.3", flags.None, flags.Ignored("wirelab uses TLS 1.3, or 1.2 if the server lacks it")),
	flags.Flag("-x --proxy -U --proxy-user --socks5 --socks5-hostname", flags.Text, flags.Refused(flags.ProxyNote)),
	flags.Flag("--noproxy", flags.Text, flags.Ignored("no proxy is used anyway")),
	flags.Flag("--resolve", flags.Text, flags.To("--resolve")),
	flags.Flag("--connect-to", flags.Text, flags.To("--connect-to")),
	flags.Flag("--unix-socket", flags.File, flags.To("--unix-socket")),
	flags.Flag("-m --max-time", flags.Seconds, flags.InSeconds("--timeout")),
	flags.Flag("--connect-timeout", flags.Seconds, flags.Ignored(flags.ConnectTimeoutNote)),
	flags.Flag("-4 --ipv4 -6 --ipv6", flags.None, flags.Ignored("an address in the target selects the IP version")),
	flags.Flag("-Y -y --speed-limit --speed-time", flags.Number, flags.Ignored("a call that is too slow ends by --timeout")),
	flags.Flag("--limit-rate --rate", flags.Text, flags.Refused("calls are as fast as possible: write --rps N for a rate, or --link rate=… for a slow network")),
	flags.Flag("-L --location --location-trusted", flags.None, flags.Ignored(flags.RedirectNote)),
	flags.Flag("--max-redirs", flags.Text, flags.Ignored(flags.RedirectNote)),
	flags.Flag("--retry", flags.Number, flags.To("--retry")),
	flags.Flag("--retry-delay --retry-max-time", flags.Number, flags.Ignored("a request is sent again at once")),
	flags.Flag("--retry-connrefused --retry-all-errors", flags.None, flags.Ignored("only a request without an answer is sent again")),
	flags.Flag("-: --next", flags.None, flags.Refused("give one command per request, or write the requests into a file for --targets FILE")),
	flags.Flag("-K --config", flags.File, flags.Refused("files of flags are not read: write the flags into the command")),
}

var outputFlags = []flags.Option{
	flags.Flag("-s --silent -S --show-error -i --include --show-headers -v --verbose -# --progress-bar -N --no-buffer", flags.None, flags.Ignored(flags.OutputOnlyNote)),
	flags.Flag("-f --fail --fail-with-body --fail-early", flags.None, flags.Ignored("a status of 400 or above counts as failed; --fail-if makes the run fail")),
	flags.Flag("-o --output", flags.Text, flags.Ignored("answers are not kept")),
	flags.Flag("-O --remote-name -J --remote-header-name --no-progress-meter", flags.None, flags.Ignored(flags.OutputOnlyNote)),
	flags.Flag("-D --dump-header --trace --trace-ascii", flags.NoneOf("a file", flags.IsClock), flags.Ignored(flags.OutputOnlyNote)),
	flags.Flag("-w --write-out", flags.Text, flags.Ignored("a run shows times anyway")),
	flags.Flag("-g --globoff", flags.None, flags.Kept("-g", "nothing: brackets in a URL have no special meaning here")),
}

func looksJSON(value string) bool {
	value = strings.TrimSpace(value)
	return value != "" && strings.IndexByte(`{["0123456789-tfn`, value[0]) >= 0 && !strings.HasPrefix(value, "--")
}

// headerField sets a header field. An empty value removes a field that curl sends by default.
func headerField(c *flags.Command, value string) error {
	if strings.HasPrefix(value, "@") {
		c.Set("-H", value)
		return nil
	}
	name, rest, colon := strings.Cut(value, ":")
	if colon && strings.TrimSpace(rest) == "" && !strings.EqualFold(name, "Host") {
		c.Note("-H '%s:' is left out: it removes a header that only curl sends", flags.Excerpt(name))
		return nil
	}
	return flags.HeaderField(c, value)
}

func upload(c *flags.Command, value string) error {
	c.Keep("-T", value)
	if !c.Has("-m") {
		c.Set("-m", "PUT")
	}
	if value == "-" || value == "." {
		c.Set("-d", "@-")
		return nil
	}
	if strings.HasPrefix(value, "{") {
		return c.Refuse("only one file can be sent: give -D FILE")
	}
	c.Set("-D", value)
	return nil
}

func settle(c *flags.Command) error {
	if hasGlob(c) {
		return errors.New("curl expands brackets to several URLs: give one URL, or write them into a file for --targets FILE, or -g to keep the brackets")
	}
	if err := c.OneTarget(); err != nil {
		return err
	}
	if err := settleData(c); err != nil {
		return err
	}
	if len(c.Kept("-T")) > 0 && len(c.Kept("data")) > 0 {
		return errors.New("-T and -d of curl: an uploaded file and data are two bodies: give only one (-T type/subtype is a content type)")
	}
	if len(c.Operands) != 1 {
		return nil
	}
	target, err := url.Parse(c.Operands[0])
	// url.Parse fails for HOST:PORT without a scheme
	if err != nil && !strings.Contains(c.Operands[0], "://") {
		c.Operands[0] = "http://" + c.Operands[0]
		target, err = url.Parse(c.Operands[0])
	}
	if err != nil {
		return errors.New("target " + flags.Excerpt(c.Operands[0]) + ": not a URL")
	}
	if target.User != nil {
		if !c.Has("--user") {
			password, _ := target.User.Password()
			c.Set("--user", target.User.Username()+":"+password)
		}
		target.User = nil
		c.Operands[0] = target.String()
	}
	if sent := c.Last("-T"); sent != "" && strings.HasSuffix(target.Path, "/") && len(sent) > 1 {
		c.Operands[0] += url.PathEscape(sent[strings.LastIndexByte(sent, '/')+1:])
	}
	return addQuery(c)
}

func hasGlob(c *flags.Command) bool {
	if len(c.Kept("-g")) > 0 || !c.Pasted {
		return false
	}
	return slices.ContainsFunc(c.Operands, func(o string) bool {
		_, path, _ := strings.Cut(o, "://")
		if at := strings.IndexByte(path, '/'); at >= 0 && strings.HasPrefix(path, "[") {
			path = path[at:] // skip the brackets of an IPv6 address
		}
		return strings.ContainsAny(path, "{}[]")
	})
}

func data(flag string) flags.Rule {
	file := ", or " + flags.Code("-D FILE") + " for @FILE"
	page := map[string]string{"-d": file, "--data-binary": file, "--json": " with " + flags.Code("-T application/json"), "--data-urlencode": ", encoded"}
	return flags.Function(flags.Code("-d")+page[flag], func(c *flags.Command, value string) error {
		c.Keep("data", flag+" "+value)
		return nil
	})
}

const formType = "application/x-www-form-urlencoded"

// settleData joins the parts of a body as curl does. It puts & between the parts, but nothing
// between parts of JSON.
func settleData(c *flags.Command) error {
	pieces := c.Kept("data")
	if len(pieces) == 0 || len(c.Kept("-G")) > 0 {
		return nil
	}
	texts, separator, isJSON := []string{}, "&", false
	for _, piece := range pieces {
		flag, text, _ := strings.Cut(piece, " ")
		if flag == "--json" {
			separator, isJSON = "", true
		}
		text, file, err := pieceOf(flag, text)
		if err != nil {
			return err
		}
		if file != "" {
			if len(pieces) > 1 {
				return fmt.Errorf("%s @%s of curl: a file can only be the whole body: join all data into one file, and give -D FILE", flag, flags.Excerpt(file))
			}
			return bodyFrom(c, flag, file, isJSON)
		}
		texts = append(texts, text)
	}
	joined := strings.Join(texts, separator)
	if strings.HasPrefix(joined, "@") {
		return errors.New("data of curl: data that begins with @ would name a file here: write it to a file, and give -D FILE")
	}
	c.Set("-d", joined)
	dataType(c, isJSON)
	return nil
}

func bodyFrom(c *flags.Command, flag, file string, isJSON bool) error {
	if file == "-" {
		c.Set("-d", "@-")
	} else {
		c.Set("-D", file)
	}
	if flag == "-d" {
		c.Note("the body is the unchanged file: curl's -d would remove its line ends")
	}
	dataType(c, isJSON)
	return nil
}

// dataType sets the method, and the content type unless a header field sets it.
func dataType(c *flags.Command, isJSON bool) {
	if isJSON {
		c.Set("-T", "application/json")
		if !c.HasHeader("Accept") {
			c.Set("-H", "Accept: application/json")
		}
	} else if !c.Has("-T") {
		c.Set("-T", formType)
	}
	if c.HasHeader("Content-Type") {
		c.Unset("-T")
	}
	if !c.Has("-m") {
		c.Set("-m", "POST")
	}
}

func pieceOf(flag, text string) (piece, file string, err error) {
	switch flag {
	case "--data-raw":
		return text, "", nil
	case "--data-urlencode":
		piece, err = encodeContent(text)
		return piece, "", err
	}
	if file, is := strings.CutPrefix(text, "@"); is {
		if file == "" {
			return "", "", fmt.Errorf("%s @ of curl: the file's name is missing", flag)
		}
		return "", file, nil
	}
	return text, "", nil
}

// encodeContent URL-encodes the content in an argument: content, =content or name=content.
func encodeContent(text string) (string, error) {
	equals, at := strings.IndexByte(text, '='), strings.IndexByte(text, '@')
	if equals < 0 && at >= 0 {
		return "", errors.New("--data-urlencode of curl: files are not read: write the file's content behind the =")
	}
	name := ""
	if equals > 0 {
		name = text[:equals+1]
	}
	return name + escape(text[equals+1:]), nil
}

// escape URL-encodes a text as curl does, with %20 for a space.
func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

func addQuery(c *flags.Command) error {
	added := []string{}
	if len(c.Kept("-G")) > 0 {
		for _, kept := range c.Kept("data") {
			flag, text, _ := strings.Cut(kept, " ")
			piece, file, err := pieceOf(flag, text)
			if err != nil {
				return err
			}
			if file != "" {
				return fmt.Errorf("-G of curl with %s @%s: files are not read into the query: write the content into the command", flag, flags.Excerpt(file))
			}
			added = append(added, piece)
		}
	}
	for _, text := range c.Kept("--url-query") {
		if plain, is := strings.CutPrefix(text, "+"); is {
			added = append(added, plain)
			continue
		}
		piece, err := encodeContent(text)
		if err != nil {
			return err
		}
		added = append(added, piece)
	}
	if len(added) == 0 {
		return nil
	}
	target, fragment, _ := strings.Cut(c.Operands[0], "#")
	separator := "?"
	if strings.Contains(target, "?") {
		separator = "&"
	} else if _, rest, _ := strings.Cut(target, "://"); !strings.Contains(rest, "/") {
		target += "/"
	}
	c.Operands[0] = target + separator + strings.Join(added, "&")
	if fragment != "" {
		c.Operands[0] += "#" + fragment
	}
	return nil
}
