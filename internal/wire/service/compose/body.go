package compose

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"mime/multipart"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/net/http/httpguts"

	"wirelab.dev/internal/base/pattern"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/template"
)

func (o *Options) addBody(r *Request, t service.Target) (err error) {
	if len(o.Forms) > 0 {
		switch {
		case t.Wire.IsGRPC() || t.Connect || t.Wire == service.WebSocket:
			return errors.New("--form: calls of gRPC, Connect and WebSocket have no forms: give the message by -d")
		case o.Data != "" || o.File != "":
			return errors.New("--form and --data: give one of them")
		case r.kind() != "":
			return errors.New("--form: it sets the Content-Type, with the boundary of its parts: leave out the other one")
		}
		body, kind, err := form(o.Forms)
		if err != nil {
			return fmt.Errorf("--form: %w", err)
		}
		r.Body = body
		r.addField("Content-Type", kind)
		return nil
	}
	file, isFile := strings.CutPrefix(o.Data, "@")
	option := "--data"
	switch {
	case o.Data != "" && o.File != "":
		return errors.New("--data and --data-file: give one of them")
	case o.File != "":
		option, file = "--data-file", o.File
	case o.Data == "-" || o.Data == "@-":
		r.Body, err = readAll("standard input", os.Stdin, maxBodyBytes)
		return err
	case !isFile:
		if !isRegular(o.Data) {
			r.Body = []byte(o.Data)
			return nil
		}
		file = o.Data
	}
	if r.Body, err = readFile(file, maxBodyBytes); err != nil {
		return fmt.Errorf("%s: %w", option, err)
	}
	return nil
}

func isRegular(name string) bool {
	status, err := os.Stat(name)
	return err == nil && status.Mode().IsRegular()
}

// formPattern matches data in the form of an HTML form, as in a=1&b=2.
var formPattern = pattern.Lazy(`^[\w.%+*\[\]-]+=[^\s=&]*(&[\w.%+*\[\]-]+=[^\s=&]*)*$`)

// checkKind adds the Content-Type of a body in JSON or of an HTML form, if the user gives none. It
// adds a note if a body that is said to be JSON is not.
func (r *Request) checkKind() {
	text, kind := bytes.TrimSpace(r.Body), r.kind()
	isObject := len(text) > 0 && (text[0] == '{' || text[0] == '[')
	hasTemplate := template.HasTemplate(string(text)) // its values are not known yet
	switch {
	case len(text) == 0:
	case kind == "" && isObject && (hasTemplate || json.Valid(text)):
		r.addField("Content-Type", "application/json")
		r.note("the body is JSON: it is sent with Content-Type: application/json; -T sets another")
	case kind == "" && formPattern().Match(text):
		r.addField("Content-Type", "application/x-www-form-urlencoded")
		r.note("the body is a form: it is sent with Content-Type: application/x-www-form-urlencoded; -T sets another")
	case isJSON(kind) && !hasTemplate:
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			r.note("the Content-Type is %s, but the body is not valid JSON (%v): it is sent as it is", kind, err)
		}
	}
}

func isJSON(kind string) bool {
	media, _, err := mime.ParseMediaType(kind)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// form returns a multipart form (RFC 7578) with parts as curl writes them: NAME=VALUE,
// NAME=@FILE for an upload, or NAME=<FILE for a value from a file. ;type=TYPE and ;filename=NAME
// may follow a file, and ;type=TYPE a value.
func form(parts []string) (body []byte, kind string, err error) {
	var into bytes.Buffer
	w := multipart.NewWriter(&into)
	for _, text := range parts {
		if err := addPart(w, text); err != nil {
			return nil, "", err
		}
		if into.Len() > maxBodyBytes {
			return nil, "", fmt.Errorf("the parts have more than %d MiB: want smaller files", maxBodyBytes>>20)
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return into.Bytes(), w.FormDataContentType(), nil
}

var quoteEscaper = strings.NewReplacer(`\`, `\\`, `"`, "%22", "\r", "%0D", "\n", "%0A")

func addPart(w *multipart.Writer, text string) error {
	name, value, found := strings.Cut(text, "=")
	if !found || name == "" {
		return fmt.Errorf("found %q: want NAME=VALUE or NAME=@FILE, as in photo=@cat.png;type=image/png", text)
	}
	value, kind, hasKind := strings.Cut(value, ";type=")
	value, filename, hasFilename := strings.Cut(value, ";filename=")
	if before, after, is := strings.Cut(kind, ";filename="); is {
		kind, filename, hasFilename = before, after, true
	}
	header := textproto.MIMEHeader{}
	disposition := fmt.Sprintf(`form-data; name="%s"`, quoteEscaper.Replace(name))
	content := []byte(value)
	file, isUpload := strings.CutPrefix(value, "@")
	if !isUpload {
		file, _ = strings.CutPrefix(value, "<")
	}
	if file != value {
		var err error
		if content, err = readFile(file, maxBodyBytes); err != nil {
			return err
		}
	}
	if isUpload || hasFilename {
		if !hasFilename {
			filename = filepath.Base(file)
		}
		disposition += fmt.Sprintf(`; filename="%s"`, quoteEscaper.Replace(strings.Trim(filename, `"`)))
	}
	if isUpload && !hasKind {
		if kind = mime.TypeByExtension(filepath.Ext(filename)); kind == "" {
			kind = "application/octet-stream"
		}
	}
	if !httpguts.ValidHeaderFieldValue(disposition) {
		return fmt.Errorf("found the name %q: want a name without control characters", name)
	}
	header.Set("Content-Disposition", disposition)
	if kind != "" {
		if _, _, err := mime.ParseMediaType(kind); err != nil || !httpguts.ValidHeaderFieldValue(kind) {
			return fmt.Errorf("found the type %q of %s: want a content type, as in image/png", kind, name)
		}
		header.Set("Content-Type", kind)
	}
	part, err := w.CreatePart(header)
	if err != nil {
		return err
	}
	_, err = part.Write(content)
	return err
}
