package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestRedirectScripts load a server whose answers lead elsewhere.
func TestRedirectScripts(t *testing.T) {
	server := httptest.NewServer(redirecting())
	t.Cleanup(server.Close)
	params := scripts(t, "redirects")
	params.Cmds["loads"] = loads
	setup := params.Setup
	params.Setup = func(env *testscript.Env) error {
		env.Setenv("SITE", server.URL)
		return setup(env)
	}
	testscript.Run(t, params)
}

// redirecting leads /old to /new?x=1, /away to another port, /secure to TLS, /round to itself
// and /post, by 303, to /new; /again keeps the method. What is there says how it was asked.
func redirecting() http.Handler {
	site := http.NewServeMux()
	for path, to := range map[string]struct {
		url    string
		status int
	}{
		"/old":    {"/new?x=1", http.StatusFound},
		"/away":   {"http://127.0.0.1:1/new", http.StatusMovedPermanently},
		"/round":  {"/round", http.StatusFound},
		"/post":   {"new", http.StatusSeeOther},
		"/again":  {"/new", http.StatusTemporaryRedirect},
		"/broken": {"http://[", http.StatusFound},
	} {
		site.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", to.url)
			w.WriteHeader(to.status)
		})
	}
	site.HandleFunc("/secure", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "https://"+r.Host+"/new")
		w.WriteHeader(http.StatusMovedPermanently)
	})
	site.HandleFunc("/new", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Repeat("-", len(r.Method))) // so that the length tells
	})
	return site
}

// loads runs wirelab load, and takes it for done where the machine was too noisy for a valid
// measurement: scripts look at what is printed, not at speeds.
func loads(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: loads FLAG… TARGET")
	}
	err := ts.Exec("wirelab", append([]string{"load"}, args...)...)
	if exit, is := errors.AsType[*exec.ExitError](err); is && exit.ExitCode() == exitInvalid {
		ts.Logf("the measurement is invalid on this machine now; what is checked here does not depend on it")
		return
	}
	ts.Check(err)
}
