package feed

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/template"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/load-data.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The table of names is the code's list of names.
func TestThePageNamesWhatTemplatesMayName(t *testing.T) {
	_, table, found := strings.Cut(page(t), "| name | is |")
	if !found {
		t.Fatal("there is no table of names")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var told []string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, " | "); len(cells) > 1 {
			for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[0], -1) {
				told = append(told, name[1])
			}
		}
	}
	var want []string
	for _, name := range template.Fields {
		if name == "Row" {
			name = "Row.name"
		}
		want = append(want, "."+name)
	}
	want = append(want, template.Functions...)
	slices.Sort(told)
	slices.Sort(want)
	if !slices.Equal(told, want) {
		t.Errorf("the page has\n%v\nthe code has\n%v", told, want)
	}
}

// The page's templates are right, and the errors that it shows are the real ones.
func TestThePagesExamples(t *testing.T) {
	rows := service.Rows{Columns: []string{"id", "name", "first name"}, Values: [][]string{{"1", "Ann", "Ann"}}}
	// {{if}} alone is a word about templates, not one.
	templates := regexp.MustCompile("\\{\\{[^}`\n]+\\}\\}(…\\{\\{end\\}\\})?").FindAllString(page(t), -1)
	tried := 0
	for _, shown := range templates {
		if shown == "{{if}}" {
			continue
		}
		tried++
		if err := Check(&service.Feed{Requests: []service.Request{{Path: "/", Body: []byte(shown)}}, Rows: rows}); err != nil {
			t.Errorf("%s: %v", shown, err)
		}
	}
	for _, example := range regexp.MustCompile("`((?:randomInt|randomString|json|urlquery|add|mod|printf|index) [^`]+)`").FindAllStringSubmatch(page(t), -1) {
		tried++
		if err := Check(&service.Feed{Requests: []service.Request{{Path: "/", Body: []byte("{{" + example[1] + "}}")}}, Rows: rows}); err != nil {
			t.Errorf("%s: %v", example[1], err)
		}
	}
	if tried < 12 {
		t.Errorf("found %d examples", tried)
	}
	for _, p := range []*service.Feed{
		plan("/", "{{.Row.idd}}"),
		plan("/", `{"n": "{{index .Row "first name"}}"}`, "Content-Type", "application/json"),
		grpcPlan(t, "ledger.v1.Ledger/Book", `{"mark": [{{.N}}]}`),
	} {
		told := false
		err := Check(p)
		if err == nil {
			t.Error("no error")
			continue
		}
		for _, shown := range regexp.MustCompile("`([^`]+: [^`]+)`").FindAllStringSubmatch(page(t), -1) {
			told = told || strings.Contains(err.Error(), strings.TrimSuffix(shown[1], " …"))
		}
		if !told {
			t.Errorf("the page does not show: %v", err)
		}
	}
}
