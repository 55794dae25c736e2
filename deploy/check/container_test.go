package check

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

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
	if len(stages) != 1 {
		return fmt.Errorf("%d stages, want one", len(stages))
	}
	return checkImage(stages[0])
}

func checkImage(image instructions.Stage) error {
	if image.BaseName != "scratch" {
		return fmt.Errorf("the image is on %s, want scratch", image.BaseName)
	}
	user, program := "", ""
	owners := map[string]string{} // by the folder that is copied
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
			if c.From != "" {
				return fmt.Errorf("copies from the image %q, which a registry must have", c.From)
			}
			owners[c.SourcePaths[0]] = c.Chown
		}
	}
	if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user) {
		return fmt.Errorf("runs as %q; want numbers, which Kubernetes can tell from root", user)
	}
	if program != "/usr/local/bin/wirelab" {
		return fmt.Errorf("starts %s; tools/image puts the program at /usr/local/bin/wirelab", program)
	}
	if want := map[string]string{"program/": "", "folders/": user}; !maps.Equal(owners, want) {
		return fmt.Errorf("copies folders with the owners %v; tools/image makes %v", owners, want)
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
		{name: "an unknown instruction", file: file, old: "WORKDIR /var", new: "WORKDIRECTORY /var", want: "unknown instruction: WORKDIRECTORY"},
		{name: "an unknown option", file: file, old: "COPY --chown", new: "COPY --owner", want: "unknown flag: --owner"},
		{name: "no list", file: file, old: `ENTRYPOINT ["/usr/local/bin/wirelab"]`, new: `ENTRYPOINT ["/usr/local/bin/wirelab",]`, want: "shell"},
		{name: "another image", file: file, old: "FROM scratch", new: "FROM alpine", want: "want scratch"},
		{name: "a file of another image", file: file, old: "COPY program/", new: "COPY --from=alpine program/", want: `the image "alpine"`},
		{name: "root", file: file, old: "USER 65532:65532", new: "USER root", want: "runs as"},
		{name: "another path", file: file, old: `["/usr/local/bin/wirelab"]`, new: `["/usr/bin/wirelab"]`, want: "puts the program at"},
		{name: "folders of root", file: file, old: "--chown=65532:65532 ", new: "", want: "copies folders with the owners"},
		{name: "another folder", file: file, old: "COPY program/", new: "COPY programs/", want: "copies folders"},
	}, checkContainerfile)
}
