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
