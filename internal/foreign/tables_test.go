package foreign

import (
	"os"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/foreign/flags"
)

// The page says what the tables do.
func TestPage(t *testing.T) {
	const file = "../../docs/load-from.md"
	if *update {
		if err := os.WriteFile(file, []byte(page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != page() {
		t.Errorf("%s is not what the tables say: go test ./internal/foreign -update", file)
	}
}

// A table names a flag once, says what it becomes, and becomes only what wirelab load has.
func TestTables(t *testing.T) {
	own := []string{}
	for _, o := range flags.Own.Options {
		own = append(own, strings.Fields(o.Names)...)
	}
	for _, tool := range Commands {
		seen := []string{}
		for _, o := range tool.Options {
			if o.Becomes.Page == "" || o.Becomes.Apply == nil {
				t.Errorf("%s %s: becomes nothing", tool.Name, o.Names)
			}
			for name := range strings.FieldsSeq(o.Names) {
				if slices.Contains(seen, name) {
					t.Errorf("%s: %s stands twice", tool.Name, name)
				}
				seen = append(seen, name)
				if len(name) > 2 != strings.HasPrefix(name, "--") {
					t.Errorf("%s: %s: a letter has one dash, a name two", tool.Name, name)
				}
			}
			c := flags.NewCommand(tool, false)
			c.Written = strings.Fields(o.Names)[0]
			if o.Becomes.Apply(c, "1") != nil {
				continue
			}
			for _, argument := range c.Arguments() {
				if strings.HasPrefix(argument, "-") && !slices.Contains(own, argument) {
					t.Errorf("%s %s becomes %s, which wirelab load does not have", tool.Name, o.Names, argument)
				}
			}
		}
	}
}
