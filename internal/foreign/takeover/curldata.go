package takeover

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// data keeps a piece of the body: its flag and its text.
func data(flag string) rule {
	page := code("-d")
	switch flag {
	case "-d", "--data-binary":
		page += ", or " + code("-D FILE") + " for @FILE"
	case "--json":
		page += " with " + code("-T application/json")
	case "--data-urlencode":
		page += ", encoded"
	}
	return by(page, func(c *command, value string) error {
		c.keep("data", flag+" "+value)
		return nil
	})
}

const formType = "application/x-www-form-urlencoded"

// settleData joins the pieces of a body as curl does: with &, JSON without.
func settleData(c *command) error {
	pieces := c.kept["data"]
	if len(pieces) == 0 || len(c.kept["-G"]) > 0 {
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
				return fmt.Errorf("%s @%s of curl: data from a file is the whole body: join all into one file, and give -D FILE", flag, excerpt(file))
			}
			return c.bodyFrom(flag, file, isJSON)
		}
		texts = append(texts, text)
	}
	joined := strings.Join(texts, separator)
	if strings.HasPrefix(joined, "@") {
		return errors.New("data of curl: data that begins with @ would name a file here: write it to a file, and give -D FILE")
	}
	c.set("-d", joined)
	c.dataType(isJSON)
	return nil
}

// bodyFrom takes the body from a file, or from the standard input.
func (c *command) bodyFrom(flag, file string, isJSON bool) error {
	if file == "-" {
		c.set("-d", "@-")
	} else {
		c.set("-D", file)
	}
	if flag == "-d" {
		c.tell("the body is the file as it is: curl's -d would take out its line ends")
	}
	c.dataType(isJSON)
	return nil
}

// dataType says what the data is, unless a header does.
func (c *command) dataType(isJSON bool) {
	if isJSON {
		c.set("-T", "application/json")
		if !c.hasHeader("Accept") {
			c.set("-H", "Accept: application/json")
		}
	} else if !c.has("-T") {
		c.set("-T", formType)
	}
	if c.hasHeader("Content-Type") {
		c.unset("-T")
	}
	if !c.has("-m") {
		c.set("-m", "POST")
	}
}

func (c *command) hasHeader(name string) bool {
	for _, s := range c.settings {
		if s.flag == "-H" && len(s.value) > 0 {
			if has, _, _ := strings.Cut(s.value[0], ":"); strings.EqualFold(strings.TrimSpace(has), name) {
				return true
			}
		}
	}
	return false
}

// pieceOf is a piece's text, or the file that it names.
func pieceOf(flag, text string) (piece, file string, err error) {
	switch flag {
	case "--data-raw":
		return text, "", nil
	case "--data-urlencode":
		piece, err = encoded(text)
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

// encoded is content, =content or name=content, with the content encoded.
func encoded(text string) (string, error) {
	equals, at := strings.IndexByte(text, '='), strings.IndexByte(text, '@')
	if equals < 0 && at >= 0 {
		return "", errors.New("--data-urlencode of curl: a file is not read for it: write its content behind the =")
	}
	if equals < 0 {
		return escape(text), nil
	}
	if equals == 0 {
		return escape(text[1:]), nil
	}
	return text[:equals+1] + escape(text[equals+1:]), nil
}

// escape encodes as curl does: a space is %20.
func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// addQuery puts what belongs there into the target's query.
func addQuery(c *command) error {
	added := []string{}
	if len(c.kept["-G"]) > 0 {
		for _, kept := range c.kept["data"] {
			flag, text, _ := strings.Cut(kept, " ")
			piece, file, err := pieceOf(flag, text)
			if err != nil {
				return err
			}
			if file != "" {
				return fmt.Errorf("-G of curl with %s @%s: a file is not read into the query: write it out", flag, excerpt(file))
			}
			added = append(added, piece)
		}
	}
	for _, text := range c.kept["--url-query"] {
		if plain, is := strings.CutPrefix(text, "+"); is {
			added = append(added, plain)
			continue
		}
		piece, err := encoded(text)
		if err != nil {
			return err
		}
		added = append(added, piece)
	}
	if len(added) == 0 {
		return nil
	}
	target, fragment, _ := strings.Cut(c.operands[0], "#")
	separator := "?"
	if strings.Contains(target, "?") {
		separator = "&"
	} else if _, rest, _ := strings.Cut(target, "://"); !strings.Contains(rest, "/") {
		target += "/"
	}
	c.operands[0] = target + separator + strings.Join(added, "&")
	if fragment != "" {
		c.operands[0] += "#" + fragment
	}
	return nil
}
