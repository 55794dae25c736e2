package main

import (
	"slices"
	"testing"
)

// A run keeps no password, token or cookie of its command line, and all else.
func TestWithoutSecrets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typed, kept []string }{
		{[]string{"load", "-H", "X-Secret: a", "-c", "5"}, []string{"load", "-H", "X-Secret: …", "-c", "5"}},
		{
			[]string{"load", "--from", "curl", "curl -u ann:pw -H 'Cookie: a=b' http://h/"},
			[]string{"load", "--from", "curl", "curl -u … -H 'Cookie: …' http://h/"},
		},
		{[]string{"load", "--from=curl -u ann:pw http://h/"}, []string{"load", "--from=curl -u … http://h/"}},
		{
			[]string{"load", "--from", "curl", "curl http://h/", "--bearer", "s3cret", "-H", "X-Secret: a b"},
			[]string{"load", "--from", "curl", "curl http://h/", "--bearer", "…", "-H", "X-Secret: …"},
		},
	} {
		if got := withoutSecrets(c.typed); !slices.Equal(got, c.kept) {
			t.Errorf("%q: kept %q, want %q", c.typed, got, c.kept)
		}
	}
}
