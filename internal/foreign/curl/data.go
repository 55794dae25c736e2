package curl

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"wirelab.dev/internal/foreign/flags"
)

// data returns the rule that keeps a piece of the body: its flag and its text.
func data(flag string) flags.Rule {
	page := flags.Code("-d")
	switch flag {
	case "-d", "--data-binary":
		page += ", or " + flags.Code("-D FILE") + " for @FILE"
	case "--json":
		page += " with " + flags.Code("-T application/json")
	case "--data-urlencode":
		page += ", encoded"
	}
	return flags.By(page, func(c *flags.Command, value string) error {
		c.Keep("data", flag+" "+value)
		return nil
	})
}

const formType = "application/x-www-form-urlencoded"

// settleData joins the pieces of a body as curl does: with &, JSON without.
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
				return fmt.Errorf("%s @%s of curl: data from a file is the whole body: join all into one file, and give -D FILE", flag, flags.Excerpt(file))
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

// bodyFrom takes the body from a file, or from the standard input.
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

// dataType sets the content type, unless a header does, and the method.
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

// pieceOf returns a piece's text, or the file that it names.
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

// encoded encodes the content in content, =content or name=content.
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

// addQuery adds the data of -G and --url-query to the target's query.
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
				return fmt.Errorf("-G of curl with %s @%s: a file is not read into the query: write it out", flag, flags.Excerpt(file))
			}
			added = append(added, piece)
		}
	}
	for _, text := range c.Kept("--url-query") {
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
