package feed

import (
	"reflect"
	"strings"
	"testing"

	"wirelab.dev/internal/wire/service"
)

func TestRowsOfAllForms(t *testing.T) {
	want := service.Rows{Columns: []string{"age", "name"}, Values: [][]string{{"7", "Ann, \"A\""}, {"8", "B\nob"}}}
	for name, text := range map[string]string{
		"a.csv":    "age,name\r\n7,\"Ann, \"\"A\"\"\"\r\n8,\"B\nob\"\r\n",
		"bom.csv":  "\ufeffage,name\n7,\"Ann, \"\"A\"\"\"\n\n8,\"B\nob\"",
		"unnamed":  "age,name\n7,\"Ann, \"\"A\"\"\"\n8,\"B\nob\"",
		"a.jsonl":  "{\"name\": \"Ann, \\\"A\\\"\", \"age\": 7}\n\n{\"age\": 8, \"name\": \"B\\nob\"}\n",
		"a.json":   `[{"name": "Ann, \"A\"", "age": 7}, {"age": 8, "name": "B\nob"}]`,
		"-":        ` [{"name": "Ann, \"A\"", "age": 7}, {"age": 8, "name": "B\nob"}] `,
		"a.NDJSON": `{"name": "Ann, \"A\"", "age": 7}{"age": 8, "name": "B\nob"}`,
	} {
		rows, err := ReadRows(name, strings.NewReader(text))
		if err != nil || !reflect.DeepEqual(rows, want) {
			t.Errorf("%s: %+v, %v", name, rows, err)
		}
	}
	rows, err := ReadRows("a.jsonl", strings.NewReader(`{"a": {"b": [1, 2]}, "n": null, "t": true, "x": 1e400}`))
	if err != nil || !reflect.DeepEqual(rows.Values, [][]string{{`{"b":[1,2]}`, "null", "true", "1e400"}}) {
		t.Errorf("%+v, %v", rows, err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

func TestWrongRowsAreExplained(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"a.csv", "", "a.csv: the file has no rows"},
		{"a.csv", "name,age\n", "the file has no rows"},
		{"a.csv", "name,age\nAnn\n", "line 2 has more or fewer fields than the first line"},
		{"a.csv", "name,\nAnn,1\n", "line 1: column 2 has no name"},
		{"a.csv", "name,name\nAnn,1\n", `two columns are named`},
		{"a.csv", "name\n\"Ann\n", "line"},
		{"a.jsonl", "{\"a\": 1}\n{\"b\": 1}\n", `line 2, row 2: found no "a": want the names of the first row`},
		{"a.jsonl", "{\"a\": 1}\n{\"a\": 1, \"b\": 2}\n", `found "b": want only the names of the first row`},
		{"a.jsonl", "{\"a\": 1}\n[1]\n", `line 2: want an object`},
		{"a.json", "[1]", `line 1: want an object`},
		{"a.json", "[null]", `found null`},
		{"a.json", "[]", `the file has no rows`},
		{"a.json", "[{\"a\": 1}", `want ] after the last row`},
		{"a.json", "[{\"a\": 1}] {}", `found other text after the rows: {}`},
		{"a.json", "{\"a\": ", `line 1: want an object`},
		{"a.json", "x", `line 1: want an object`},
	} {
		if _, err := ReadRows(c.name, strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %q: %v, want %s", c.name, c.text, err, c.says)
		}
	}
	if _, err := ReadRows("a.csv", zeros{}); err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Error(err)
	}
}

func FuzzRows(f *testing.F) {
	f.Add("a.csv", "name,age\nAnn,7\n")
	f.Add("a.json", `[{"a": 1}, {"a": "x"}]`)
	f.Add("-", "{\"a\": 1}\n{\"a\": null}\n")
	f.Fuzz(func(t *testing.T, name, text string) {
		rows, err := ReadRows(name, strings.NewReader(text))
		if err != nil {
			return
		}
		if len(rows.Values) == 0 {
			t.Error("no rows, and no error")
		}
		for _, row := range rows.Values {
			if len(row) != len(rows.Columns) {
				t.Errorf("a row of %d in %d columns", len(row), len(rows.Columns))
			}
		}
	})
}
