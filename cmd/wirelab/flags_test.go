package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A client believes a server over TLS that is not wirelab's own only where it is
// told to.
func TestWhomAClientTrustsIsSaidByFlags(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root.pem")
	address := serving(t, "--stack", "tcp", "--tls", "--ca", root)
	for _, test := range []struct {
		name  string
		flags []string
		says  string // "": it is measured
	}{
		{"its root", []string{"--cacert", root}, ""},
		{"anyone", []string{"-k"}, ""},
		{"the system's roots", nil, "certificate"},
	} {
		directory := filepath.Join(t.TempDir(), "out")
		args := append([]string{
			"compare", "--stack", "tcp", "--tls", "--target", address, "-o", directory,
			"--size", "64", "-c", "1", "-n", "20", "--repeat", "1", "--warm-up", "0s",
		}, test.flags...)
		said, err := exec.Command("wirelab", args...).CombinedOutput()
		var exit *exec.ExitError
		switch {
		case test.says == "" && err != nil && !(errors.As(err, &exit) && exit.ExitCode() == exitInvalid):
			t.Errorf("%s: %v\n%s", test.name, err, said)
		case test.says != "" && (err == nil || !strings.Contains(string(said), test.says)):
			t.Errorf("%s: %v; want something of %q\n%s", test.name, err, test.says, said)
		}
	}
}

// A mistake in the command line ends with the exit code for it, before anything runs.
func TestUsageEndsWithItsOwnExitCode(t *testing.T) {
	for _, test := range []struct{ line, says string }{
		{"frobnicate", `unknown command "frobnicate"`},
		{"serve", `required flag(s) "stack" not set`},
		{"report", "give one run's directory, or several"},
		{"compare -c abc", `-c, --concurrency: want whole numbers such as 1,10,50; found "abc"`},
		{"compare --columns P50,p98", `--columns: unknown column "p98": want one of stack, workload, size`},
		{"run --columns p98 kernel-study", `--columns: unknown column`},
		{"report --columns= .", `--columns: `},
		{"compare --rps nan", "--rps: found NaN requests per second"},
		{"compare --rps 5 --ramp-to inf", "--ramp-to: found +Inf requests per second"},
		{"compare --warm-up -1s", "--warm-up: want 0s or more, found -1s"},
		{"load --also 999999999 http://127.0.0.1:1/", "--also 999999999: there is no process 999999999"},
		{"compare --stack tcp --target 127.0.0.1:99999", `invalid port "99999"`},
	} {
		var said strings.Builder
		code := run(strings.Fields(test.line), strings.NewReader(""), &said, &said)
		if code != exitUsage || !strings.Contains(said.String(), test.says) {
			t.Errorf("%s: exit code %d, want %d with %q in:\n%s", test.line, code, exitUsage, test.says, said.String())
		}
	}
}
