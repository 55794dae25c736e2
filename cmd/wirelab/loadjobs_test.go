package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var (
	jobRow  = regexp.MustCompile("(?m)^\\| ([^|]+) \\| [^|`]*`(.+)` \\| (\\d+) \\| (.+) \\|$")
	jobPort = regexp.MustCompile(`127\.0\.0\.1:(\d+)|http://127\.0\.0\.1:8082`)
	// shorterJobs makes commands as short as a test needs them, and keeps them from what is on this machine.
	shorterJobs = strings.NewReplacer(
		"30s:100,2m:500,30s:0", "200ms:100,400ms:500,200ms:0",
		"-z 10m", "-z 500ms",
		"--goal 'p99<20ms'", "--goal 'p99<20ms' -z 100ms",
		"fleet up --detach", "fleet up --detach --listen 127.0.0.1:0",
		`\|`, "|",
	)
)

// A jobOfPage is a row of docs/load-jobs.md.
type jobOfPage struct {
	command string
	steps   int
	others  string // the steps of the other tool that needs fewest, behind its name
}

// jobCommands returns the rows of docs/load-jobs.md by their jobs.
func jobCommands(t *testing.T) map[string]jobOfPage {
	t.Helper()
	page, err := os.ReadFile("../../docs/load-jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	jobs := map[string]jobOfPage{}
	for _, row := range jobRow.FindAllStringSubmatch(string(page), -1) {
		steps, err := strconv.Atoi(row[3])
		if err != nil {
			t.Fatal(err)
		}
		jobs[row[1]] = jobOfPage{row[2], steps, row[4]}
	}
	if rows := strings.Count(string(page), "\n| ") - 2; rows != len(jobs) {
		t.Errorf("%d of the %d rows are read", len(jobs), rows)
	}
	return jobs
}

// No job takes more steps than with the tool that needs fewest, unless the page says why.
func TestJobsTakeFewSteps(t *testing.T) {
	for name, job := range jobCommands(t) {
		tool, steps, _ := strings.Cut(job.others, " ")
		if least, err := strconv.Atoi(steps); tool != "none" && (err != nil || job.steps > least) && name != "in a container" {
			t.Errorf("%s takes %d steps, but %s", name, job.steps, job.others)
		}
	}
}

// The flags in a container are those of load, also where no container can run.
func TestContainerJobIsUnderstood(t *testing.T) {
	_, line, _ := strings.Cut(jobCommands(t)["in a container"].command, "=0) ")
	if err := understood(strings.Fields(line)); err != nil || !strings.HasPrefix(line, "load ") {
		t.Errorf("%q: %v", line, err)
	}
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
		row, known := commands[strings.Join(args, " ")]
		if neg || !known {
			ts.Fatalf("usage: job NAME; docs/load-jobs.md has no %q", args)
		}
		command := jobPort.ReplaceAllStringFunc(row.command, func(address string) string {
			_, port, _ := strings.Cut(strings.TrimPrefix(address, "http://"), ":")
			return ts.Getenv("PORT_" + port)
		})
		err := ts.Exec("sh", "-c", shorterJobs.Replace(command))
		if exit, is := errors.AsType[*exec.ExitError](err); is && slices.Contains([]int{exitInvalid, exitBreached}, exit.ExitCode()) {
			ts.Logf("exit code %d: this machine is too busy now for the times; what is checked here does not depend on them", exit.ExitCode())
			return
		}
		ts.Check(err)
	}
	testscript.Run(t, params)
}
