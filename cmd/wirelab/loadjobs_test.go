package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var (
	jobRow  = regexp.MustCompile("(?m)^\\| ([^|]+) \\| `(wirelab .+)` \\|$")
	jobPort = regexp.MustCompile(`127\.0\.0\.1:(\d+)|http://127\.0\.0\.1:8082`)
)

// jobCommands returns the commands of docs/load-jobs.md by their jobs.
func jobCommands(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/load-jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string]string{}
	for _, row := range jobRow.FindAllStringSubmatch(string(page), -1) {
		commands[row[1]] = row[2]
	}
	return commands
}

// TestJobs runs each command of docs/load-jobs.md. A script says `job NAME` for it; $PORT_8080 has the address that takes
// the place of 127.0.0.1:8080.
func TestJobs(t *testing.T) {
	if testing.Short() {
		t.Skip("short: the jobs load services")
	}
	commands := jobCommands(t)
	params := scripts(t, "jobs")
	var ran []string
	for _, file := range params.Files {
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range regexp.MustCompile(`(?m)^job (.+)$`).FindAllStringSubmatch(string(text), -1) {
			ran = append(ran, line[1])
		}
	}
	for name := range commands {
		if !slices.Contains(ran, name) {
			t.Errorf("no script runs the job %q", name)
		}
	}
	params.Cmds["job"] = func(ts *testscript.TestScript, neg bool, args []string) {
		command, known := commands[strings.Join(args, " ")]
		if neg || !known {
			ts.Fatalf("usage: job NAME; docs/load-jobs.md has no %q", args)
		}
		command = jobPort.ReplaceAllStringFunc(command, func(address string) string {
			_, port, _ := strings.Cut(strings.TrimPrefix(address, "http://"), ":")
			return ts.Getenv("PORT_" + port)
		})
		err := ts.Exec("sh", "-c", command)
		if exit, is := errors.AsType[*exec.ExitError](err); is && exit.ExitCode() == exitInvalid {
			ts.Logf("the measurement is invalid on this machine now; what is checked here does not depend on it")
			return
		}
		ts.Check(err)
	}
	testscript.Run(t, params)
}
