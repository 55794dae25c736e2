package check

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

var goLine = regexp.MustCompile(`(?m)^go (\S+)$`)

// checkContainerfile reads the file as BuildKit does, and says what the image should not have.
func checkContainerfile(t *testing.T, _, text string) error {
	t.Helper()
	parsed, err := parser.Parse(strings.NewReader(text))
	if err != nil {
		return err
	}
	var findings []string
	lint := linter.New(&linter.Config{ReturnAsError: true, Warn: func(rule, description, _, message string, _ []parser.Range) {
		findings = append(findings, fmt.Sprintf("%s: %s (%s)", rule, message, description))
	}})
	for _, w := range parsed.Warnings {
		findings = append(findings, w.Short)
	}
	stages, _, err := instructions.Parse(parsed.AST, lint)
	if err != nil {
		return err
	}
	if err := lint.Error(); err != nil {
		findings = append(findings, err.Error())
	}
	if len(findings) > 0 {
		return errors.New(strings.Join(findings, "\n"))
	}
	if len(stages) != 2 {
		return fmt.Errorf("%d stages, want one that builds and the image", len(stages))
	}
	module, err := os.ReadFile("../../go.mod")
	if err != nil {
		return err
	}
	version := goLine.FindStringSubmatch(string(module))[1]
	if want := "docker.io/library/golang:" + version + "-bookworm"; stages[0].BaseName != want {
		return fmt.Errorf("is built in %s; go.mod wants %s", stages[0].BaseName, want)
	}
	return checkImage(stages[0], stages[1])
}

func checkImage(build, image instructions.Stage) error {
	if image.BaseName != "scratch" {
		return fmt.Errorf("the image is on %s, want scratch", image.BaseName)
	}
	user, program := "", ""
	var copied []string
	for _, command := range image.Commands {
		switch c := command.(type) {
		case *instructions.RunCommand:
			return fmt.Errorf("RUN %v: an empty image has nothing that runs", c.CmdLine)
		case *instructions.UserCommand:
			user = c.User
		case *instructions.EntrypointCommand:
			if c.PrependShell || len(c.CmdLine) != 1 {
				return errors.New("ENTRYPOINT takes a shell, which an empty image has not")
			}
			program = c.CmdLine[0]
		case *instructions.CopyCommand:
			if c.From != build.Name {
				return fmt.Errorf("copies from %q, want %q", c.From, build.Name)
			}
			copied = append(copied, c.DestPath)
		}
	}
	if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user) {
		return fmt.Errorf("runs as %q; want numbers, which Kubernetes can tell from root", user)
	}
	if !slices.Contains(copied, program) {
		return fmt.Errorf("starts %s, which was not copied", program)
	}
	return nil
}

func TestContainerfile(t *testing.T) {
	t.Parallel()
	const file = "Containerfile"
	if err := checkContainerfile(t, file, read(t, file)); err != nil {
		t.Error(err)
	}
	mustFind(t, []mistake{
		{name: "an unknown instruction", file: file, old: "WORKDIR /source", new: "WORKDIRECTORY /source", want: "unknown instruction: WORKDIRECTORY"},
		{name: "an unknown option", file: file, old: "COPY --from=build /source", new: "COPY --form=build /source", want: "unknown flag: --form"},
		{name: "no list", file: file, old: `ENTRYPOINT ["/usr/local/bin/wirelab"]`, new: `ENTRYPOINT ["/usr/local/bin/wirelab",]`, want: "shell"},
		{name: "another stage", file: file, old: "COPY --from=build /source", new: "COPY --from=built /source", want: `copies from "built"`},
		{name: "root", file: file, old: "USER 65532:65532", new: "USER root", want: "runs as"},
		{name: "another Go", file: file, old: "golang:1.", new: "golang:0.", want: "go.mod wants"},
		{name: "another path", file: file, old: "wirelab /usr/local/bin/wirelab", new: "wirelab /usr/bin/wirelab", want: "was not copied"},
		{name: "a stage's name in capitals", file: file, old: "AS build", new: "AS Build", want: "StageNameCasing"},
	}, checkContainerfile)
}
