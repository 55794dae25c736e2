package compose

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"wirelab.dev/internal/base/excerpt"
	"wirelab.dev/internal/wire/service"
)

// Targets is a list of requests in one of the forms that vegeta reads: lines METHOD URL, or only URL,
// with header fields and @FILE for the body below, or JSON lines
// (https://github.com/tsenart/vegeta#-format).
type Targets struct {
	name string
	all  []listed
}

// A listed request is one of a list.
type listed struct {
	line   int    // number of its first line
	method string // empty means the default
	url    string // a URL, or a path
	header []service.Field
	body   []byte
	file   string // file with the body
}

const (
	maxTargets      = 100_000
	maxTargetsBytes = 64 << 20 // of the list, and of the bodies in files
)

// ReadTargets reads the list in a file, and the bodies in files that it names. The name - means
// standard input.
func ReadTargets(name string, standardInput io.Reader) (*Targets, error) {
	var data []byte
	var err error
	if name == "-" {
		name = "standard input"
		data, err = readAll(name, standardInput, maxTargetsBytes)
	} else {
		data, err = readFile(name, maxTargetsBytes)
	}
	if err != nil {
		return nil, err
	}
	p := targetParser{Targets: Targets{name: name}}
	if err := p.parse(data); err != nil {
		return nil, err
	}
	return &p.Targets, p.readBodies(maxTargetsBytes - len(data))
}

// at adds the place of a line to an error.
func (t *Targets) at(line int, err error) error { return fmt.Errorf("%s:%d: %w", t.name, line, err) }

// readBodies reads the files of the bodies, which may have limit bytes together.
func (t *Targets) readBodies(limit int) error {
	files := map[string][]byte{}
	for i := range t.all {
		one := &t.all[i]
		if one.file == "" {
			continue
		}
		body, known := files[one.file]
		if !known {
			var err error
			if body, err = readFile(one.file, maxBodyBytes); err != nil {
				return t.at(one.line, fmt.Errorf("the body @%s: %w", one.file, err))
			}
			files[one.file] = body
		}
		if limit -= len(body); limit < 0 {
			return t.at(one.line, fmt.Errorf("list and bodies have more than %d MiB, and each client process keeps them: use fewer requests or smaller bodies", maxTargetsBytes>>20))
		}
		one.body = body
	}
	return nil
}

// A targetParser reads a list line by line.
type targetParser struct {
	Targets
	open   bool // the next line may belong to the last request
	isJSON bool
}

func (p *targetParser) parse(data []byte) error {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // a byte order mark
	p.isJSON = bytes.HasPrefix(bytes.TrimSpace(data), []byte("{"))
	number := 0
	for line := range bytes.Lines(data) {
		number++
		err := p.add(number, strings.TrimSpace(string(line)))
		if err == nil && len(p.all) > maxTargets {
			err = fmt.Errorf("more than %d requests: use fewer, or one URL with a template and --rows", maxTargets)
		}
		if err != nil {
			return p.at(number, err)
		}
	}
	if len(p.all) == 0 {
		return fmt.Errorf("%s: found no request: write one per line, as in GET http://127.0.0.1:8080/", p.name)
	}
	return nil
}

var (
	requestLine = regexp.MustCompile(`^([A-Z]+)\s+(\S.*)$`)
	bareURL     = regexp.MustCompile(`^(https?://|/)`)
)

func (p *targetParser) add(number int, line string) error {
	switch parts := requestLine.FindStringSubmatch(line); {
	case line == "":
		p.open = false
		return nil
	case p.isJSON:
		return p.addJSON(number, line)
	case strings.HasPrefix(line, "#"):
		return nil
	case parts != nil:
		p.all, p.open = append(p.all, listed{line: number, method: parts[1], url: parts[2]}), true
		return nil
	case bareURL.MatchString(line):
		p.all, p.open = append(p.all, listed{line: number, url: line}), true
		return nil
	case !p.open:
		return fmt.Errorf("found %q: want METHOD URL or a URL, as in GET http://127.0.0.1:8080/", excerpt.Start(line, 60))
	}
	last := &p.all[len(p.all)-1]
	if file, isBody := strings.CutPrefix(line, "@"); isBody {
		if file == "" || last.file != "" {
			return errors.New("found a second body, or @ without a file: write @FILE once, below the header fields")
		}
		last.file = file
		return nil
	}
	field, is := service.ParseField(line)
	if !is { // the line may hold a secret
		return errors.New("want a header field, as in 'Accept: text/html', @FILE for the body, or the next request: METHOD URL")
	}
	last.header = append(last.header, field)
	return nil
}

// addJSON adds a request that is a line of JSON.
func (p *targetParser) addJSON(number int, line string) error {
	var one struct {
		Method string              `json:"method"`
		URL    string              `json:"url"`
		Body   []byte              `json:"body"` // base64
		Header map[string][]string `json:"header"`
	}
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&one)
	if err == nil && decoder.InputOffset() != int64(len(line)) {
		err = errors.New("more text follows the object")
	}
	switch {
	case err != nil:
		return fmt.Errorf(`want one object per line, as in {"method": "POST", "url": "http://…", "header": {"Accept": ["text/html"]}, "body": "BASE64"}: %w`, err)
	case one.URL == "":
		return errors.New(`found no "url": give one`)
	}
	request := listed{line: number, method: one.Method, url: one.URL, body: one.Body}
	for name, values := range one.Header {
		for _, value := range values {
			field, is := service.ParseField(name + ": " + value)
			if !is {
				return fmt.Errorf("the header field %q: want a name and values that HTTP allows", name)
			}
			request.header = append(request.header, field)
		}
	}
	slices.SortStableFunc(request.header, func(a, b service.Field) int { return strings.Compare(a.Name, b.Name) })
	p.all = append(p.all, request)
	return nil
}
