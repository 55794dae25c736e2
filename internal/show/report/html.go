package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"

	"wirelab.dev/internal/show/report/table"
	"wirelab.dev/web"
)

//go:embed page.html
var pageText string

// WriteHTML writes the report as one page that needs nothing else: no server,
// no network, and to be read at all, no JavaScript.
func WriteHTML(w io.Writer, run *Run) error { return writeHTML(w, run, "") }

// LiveScript loads a page again when its server says that there is a newer one. What the
// reader chose is in the page's address, and stays.
const LiveScript = `new EventSource("events").onmessage = () => location.reload();`

// WriteLiveHTML writes the page of a run that goes on, for a server that has the events.
func WriteLiveHTML(w io.Writer, run *Run) error { return writeHTML(w, run, LiveScript) }

func writeHTML(w io.Writer, run *Run, live template.JS) error {
	page, err := template.New("page").Parse(pageText)
	if err != nil {
		return fmt.Errorf("report: reading the page's template: %w", err)
	}
	encoded, err := encode(newPageData(run), forPage)
	if err != nil {
		return fmt.Errorf("report: encoding the page's data: %w", err)
	}
	// With <, > and & as escapes no text in the data can end the element that
	// it stands in.
	var data bytes.Buffer
	json.HTMLEscape(&data, encoded)
	// The style and the program are ours, and the data is escaped.
	err = page.Execute(w, pageContent{
		Title:   cmp.Or(run.Summary.Title, run.Summary.Name),
		Style:   template.CSS(web.Style),
		Program: template.JS(web.Program),
		Data:    template.JS(data.String()),
		Advice:  slices.Concat(run.Answer, run.Advice),
		Table:   table.NewPlain(run.Summary),
		Live:    live,
	})
	if err != nil {
		return fmt.Errorf("report: writing the page: %w", err)
	}
	return nil
}

type pageContent struct {
	Title   string
	Style   template.CSS
	Program template.JS
	Data    template.JS
	Advice  []string
	Table   table.PlainTable
	Live    template.JS // empty in a file
}
