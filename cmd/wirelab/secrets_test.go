package main

import (
	"slices"
	"testing"
)

// A run keeps no password, token or cookie of its command line, and all else.
func TestWithoutSecrets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typed, kept []string }{
		{[]string{"load", "--bearer", "s3cret", "-c", "5"}, []string{"load", "--bearer", "…", "-c", "5"}},
		{[]string{"--bearer=s3cret"}, []string{"--bearer=…"}},
		{[]string{"--user", "a:b"}, []string{"--user", "…"}},
		{[]string{"-H", "Authorization: Basic abc"}, []string{"-H", "Authorization: …"}},
		{[]string{"-HX-Api-Key: abc"}, []string{"-HX-Api-Key: …"}},
		{[]string{"--header=Cookie: a=b"}, []string{"--header=Cookie: …"}},
		{[]string{"-H", "Accept: text/html"}, []string{"-H", "Accept: text/html"}},
		{[]string{"http://ann:pw@h/x"}, []string{"http://…@h/x"}},
		{[]string{"http://h/x@y"}, []string{"http://h/x@y"}},
		{
			[]string{"load", "--from", "curl", "curl -u ann:pw -H 'Cookie: a=b' http://h/"},
			[]string{"load", "--from", "curl", "curl -u … -H 'Cookie: …' http://h/"},
		},
		{[]string{"load", "--from=curl -u ann:pw http://h/"}, []string{"load", "--from=curl -u … http://h/"}},
		{[]string{"-a", "ann:pw"}, []string{"-a", "…"}},
		{[]string{"-d", "a=b"}, []string{"-d", "a=b"}},
	} {
		if got := withoutSecrets(c.typed); !slices.Equal(got, c.kept) {
			t.Errorf("%q: kept %q, want %q", c.typed, got, c.kept)
		}
	}
}
