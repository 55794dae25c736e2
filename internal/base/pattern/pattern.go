// Package pattern holds regular expressions of packages. They are compiled when they are first used,
// because wirelab starts itself again for each worker, and a start uses few of them.
package pattern

import (
	"regexp"
	"sync"
)

// Lazy returns a function that returns the compiled expression. It panics at its first call if the
// expression is wrong. It may be called concurrently.
func Lazy(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// Matcher returns a function that reports whether the expression matches a text.
func Matcher(expression string) func(text string) bool {
	compiled := Lazy(expression)
	return func(text string) bool { return compiled().MatchString(text) }
}
