package takeover

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The page says what the tables do.
func TestPage(t *testing.T) {
	const file = "../../../docs/load-from.md"
	if *update {
		if err := os.WriteFile(file, []byte(Page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != Page() {
		t.Errorf("%s is not what the tables say: go test ./internal/foreign/takeover -update", file)
	}
}

// A table names a flag once, says what it becomes, and becomes only what wirelab load has.
func TestTables(t *testing.T) {
	flags := Flags()
	for _, tool := range tools {
		seen := []string{}
		for _, o := range tool.options {
			if o.becomes.page == "" || o.becomes.apply == nil {
				t.Errorf("%s %s: becomes nothing", tool.name, o.names)
			}
			for name := range strings.FieldsSeq(o.names) {
				if slices.Contains(seen, name) {
					t.Errorf("%s: %s stands twice", tool.name, name)
				}
				seen = append(seen, name)
				if len(name) > 2 != strings.HasPrefix(name, "--") {
					t.Errorf("%s: %s: a letter has one dash, a name two", tool.name, name)
				}
			}
			c := &command{tool: tool, kept: map[string][]string{}, written: strings.Fields(o.names)[0]}
			if o.becomes.apply(c, "1") != nil {
				continue
			}
			for _, s := range c.settings {
				if !slices.Contains(flags, s.flag) {
					t.Errorf("%s %s becomes %s, which wirelab load does not have", tool.name, o.names, s.flag)
				}
			}
		}
	}
}
