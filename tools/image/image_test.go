package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestRegistriesAreChecked(t *testing.T) {
	for registry, want := range map[string]string{
		"registry.example.com/team":      "",
		"localhost":                      "",
		"127.0.0.1:5000/a/b_c":           "",
		"":                               "REGISTRY is empty: say where the image belongs",
		"https://registry.example.com":   "leave out https://",
		"registry.example.com/team/":     "a slash at the end",
		"registry.example.com/Team":      "in small letters",
		"registry.example.com/team:v1":   "a tag",
		"registry.example.com/my images": "is not HOST",
	} {
		err := checkRegistry(registry)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v; want %q", registry, err, want)
		}
	}
}

// Every way of naming the image gets the new name, and the rest of a file stays as it is.
func TestNameIsWritten(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0a", 32)
	const name = "new.example:5000/a/wirelab:abc-dirty-1"
	path := filepath.Join(t.TempDir(), "a.yaml")
	for old, want := range map[string]string{
		"    image: old.example/wirelab:fleet\n":                   "    image: NAME\n",
		"  - image: wirelab\n    name: x\n":                        "  - image: NAME\n    name: x\n",
		"image: old.example:1/x/wirelab:1" + digest + " # why\n":   "image: NAME # why\n",
		"image: \"localhost/wirelab" + digest + "\"\nimage: nginx": "image: NAME\nimage: nginx",
		"image: old/wirelab-other:1\n":                             "", // another image
		"# image: old/wirelab:1\n":                                 "", // a comment
		"images: [old/wirelab]\n":                                  "",
	} {
		if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time changes nothing
			places, err := writeName([]string{path}, name)
			if want == "" {
				if err == nil || !strings.Contains(err.Error(), "no line `image: …/wirelab`") {
					t.Errorf("%q: %v; want an error", old, err)
				}
				continue
			}
			text, readErr := os.ReadFile(path)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if got := string(text); err != nil || places != 1 || got != strings.ReplaceAll(want, "NAME", name) {
				t.Errorf("%q: %d places, %v:\n%s", old, places, err, got)
			}
		}
	}
}

// After the tool ran, every reference in the real files has the same name and digest.
func TestAllManifestsGetTheName(t *testing.T) {
	deploy := filepath.Join(t.TempDir(), "deploy")
	if err := os.CopyFS(deploy, os.DirFS("../../deploy")); err != nil {
		t.Fatal(err)
	}
	files, err := manifests(deploy)
	if err != nil {
		t.Fatal(err)
	}
	name := "new.example/wirelab:abc@sha256:" + strings.Repeat("12", 32)
	if _, err := writeName(files, name); err != nil {
		t.Fatal(err)
	}
	with := map[string]bool{}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range regexp.MustCompile(`(?m)^[^#\n]*\bimage: *(.*)$`).FindAllSubmatch(text, -1) {
			with[filepath.Base(path)] = true
			if string(image[1]) != name {
				t.Errorf("%s names %s", path, image[1])
			}
		}
	}
	for _, file := range []string{"compose.yaml", "compare.yaml", "clients.yaml", "clients-anywhere.yaml", "hub.yaml", "server.yaml"} {
		if !with[file] {
			t.Errorf("%s names no image", file)
		}
	}
}

// The tag is the commit's, also after the manifests have got the image's name. The program is built
// as if they were unchanged: it is here what git says of the tree.
func TestTagIsTheCommit(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git := func(arguments ...string) string {
		t.Helper()
		arguments = append([]string{"-C", root, "-c", "user.name=a", "-c", "user.email=a@example.com"}, arguments...)
		out, err := exec.CommandContext(t.Context(), "git", arguments...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", arguments, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write("Makefile", "build:\n\tmkdir -p bin && git status --porcelain > bin/wirelab\n")
	write(".gitignore", "bin\n")
	write("deploy/a.yaml", "image: example/wirelab:fleet\n")
	git("init", "--quiet")
	git("add", ".")
	git("commit", "--quiet", "--message", "first")
	tagged := func() (tag, built string) {
		t.Helper()
		files, err := manifests(filepath.Join(root, "deploy"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := openSource(t.Context(), root, files)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		made, err := s.build(t.Context(), t.Output())
		if err != nil {
			t.Fatal(err)
		}
		return made.Version, string(made.Text)
	}
	commit := git("rev-parse", "--short=12", "HEAD")
	if tag, built := tagged(); tag != commit || built != "" {
		t.Errorf("a clean tree: the tag %s, want %s; built as %q", tag, commit, built)
	}
	write("deploy/a.yaml", "image: example/wirelab:"+commit+"\n")
	if tag, built := tagged(); tag != commit || built != "" {
		t.Errorf("with the name written: the tag %s, want %s; built as %q", tag, commit, built)
	}
	if status := git("status", "--porcelain"); status != "M deploy/a.yaml" {
		t.Errorf("the user's own git says %q, want the changed manifest", status)
	}
	write("main.go", "package main\n")
	first, _ := tagged()
	if !regexp.MustCompile(`^` + commit + `-dirty-[0-9a-f]{8}$`).MatchString(first) {
		t.Errorf("with another file: the tag %s, want %s-dirty-…", first, commit)
	}
	write("other.go", "package main\n")
	if second, _ := tagged(); second == first {
		t.Errorf("two programs of one commit have the tag %s", first)
	}
}

func TestNoEngineIsExplained(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	if err := os.WriteFile(filepath.Join(folder, "docker"), []byte("#!/bin/sh\necho no daemon is up >&2\nexit 1\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	_, err := findEngine(t.Context())
	for _, want := range []string{"install docker or podman, or push it", "docker info: exit status 1: no daemon is up", "podman is not installed"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
