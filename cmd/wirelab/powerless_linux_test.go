package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"wirelab.dev/internal/machine/probe/probetest"
)

// powerless runs wirelab without any rights, and keeps its output in the files out and err.
func powerless(ts *testscript.TestScript, _ bool, args []string) {
	program, err := exec.LookPath(filepath.Join(strings.Split(ts.Getenv("PATH"), string(os.PathListSeparator))[0], "wirelab"))
	ts.Check(err)
	out, err := os.Create(ts.MkAbs("out"))
	ts.Check(err)
	errs, err := os.Create(ts.MkAbs("err"))
	ts.Check(err)
	c := exec.Command(program, args...) //nolint:noctx // a script ends with the test
	c.Dir, c.Stdout, c.Stderr = ts.MkAbs("."), out, errs
	start := (*exec.Cmd).Start
	if os.Geteuid() == 0 { // others have none
		start = probetest.StartWithoutCapabilities
	}
	ts.Check(start(c))
	var exit *exec.ExitError
	if err := c.Wait(); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != exitInvalid) { // see measure
		ts.Fatalf("%v: %s", err, ts.ReadFile("err"))
	}
	ts.Check(out.Close())
	ts.Check(errs.Close())
}
