package secret_test

import (
	"slices"
	"testing"

	"wirelab.dev/internal/base/secret"
)

func TestHideIn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typed, kept []string }{
		{[]string{"load", "--bearer", "s3cret", "-c", "5"}, []string{"load", "--bearer", "…", "-c", "5"}},
		{[]string{"--bearer=s3cret"}, []string{"--bearer=…"}},
		{[]string{"--oauth2-bearer", "s3cret"}, []string{"--oauth2-bearer", "…"}},
		{[]string{"--user", "a:b"}, []string{"--user", "…"}},
		{[]string{"-user", "a:b"}, []string{"-user", "…"}},
		{[]string{"-a", "ann:pw"}, []string{"-a", "…"}},
		{[]string{"ab", "-A", "ann:pw"}, []string{"ab", "-A", "…"}},
		{[]string{"-A", "text/html"}, []string{"-A", "text/html"}},
		{[]string{"-H", "Authorization: Basic abc"}, []string{"-H", "Authorization: …"}},
		{[]string{"-H", "Proxy-Authorization: Basic abc"}, []string{"-H", "Proxy-Authorization: …"}},
		{[]string{"-H", "X-Secret: abc"}, []string{"-H", "X-Secret: …"}},
		{[]string{"-HX-Api-Key: abc"}, []string{"-HX-Api-Key: …"}},
		{[]string{"--header=Cookie: a=b"}, []string{"--header=Cookie: …"}},
		{[]string{"-H", "Accept: text/html"}, []string{"-H", "Accept: text/html"}},
		{[]string{"http://ann:pw@h/x"}, []string{"http://…@h/x"}},
		{[]string{"--push", "prometheus=http://ann:pw@h/x"}, []string{"--push", "prometheus=http://…@h/x"}},
		{[]string{"--push-header", "Authorization: Bearer s3cret"}, []string{"--push-header", "Authorization: …"}},
		{[]string{"http://h/x@y"}, []string{"http://h/x@y"}},
		{[]string{"-d", "a=b"}, []string{"-d", "a=b"}},
		{[]string{"-d", `{"user":"ann","password": "p\"w","pin_token":12,"a":{"key":"x"}}`}, []string{"-d", `{"user":"ann","password": "…","pin_token":"…","a":{"key":"…"}}`}},
		{[]string{"-d", `{"password":"cut`}, []string{"-d", `{"password":"…"`}},
		{[]string{"--data=user=ann&password=pw"}, []string{"--data=user=ann&password=…"}},
		{[]string{"-dpassword=pw"}, []string{"-dpassword=…"}},
		{[]string{"-F", "token=abc", "-F", "photo=@cat.png"}, []string{"-F", "token=…", "-F", "photo=@cat.png"}},
		{[]string{"http://h/x?limit=10&api_key=abc#a"}, []string{"http://h/x?limit=10&api_key=…#a"}},
		{[]string{"https://ann:pw@h/x?token=abc"}, []string{"https://…@h/x?token=…"}},
		{[]string{"--fail-if", "p99>20ms"}, []string{"--fail-if", "p99>20ms"}},
	} {
		if got := secret.HideInArguments(c.typed); !slices.Equal(got, c.kept) {
			t.Errorf("%q: kept %q, want %q", c.typed, got, c.kept)
		}
	}
}
