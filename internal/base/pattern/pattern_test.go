package pattern_test

import (
	"testing"

	"wirelab.dev/internal/base/pattern"
)

// A wrong expression is found when it is used, and not before.
func TestLazy(t *testing.T) {
	t.Parallel()
	if isWord := pattern.Matcher(`^\w+$`); !isWord("word") || isWord("two words") {
		t.Error("the expression does not match the texts that it should")
	}
	wrong := pattern.Lazy(`(`)
	defer func() {
		if recover() == nil {
			t.Error("a wrong expression compiles")
		}
	}()
	wrong()
}
