// Command webbuild makes web/dist, the report page's program and style, from
// web/src.
//
// esbuild does it through its Go API, so that node's part is small: npm brings
// the two libraries that the page is built on and the type checker. What comes
// out is committed, and embedded by package web; a machine without npm builds
// and runs wirelab as it is.
//
//	go -C tools run ./webbuild          # write
//	go -C tools run ./webbuild -check   # fail if what is written has drifted
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/evanw/esbuild/pkg/api"
)

// libraries are bundled into the page; their licences go along with it.
var libraries = []string{"preact", "uplot"}

// errNoPackages says that the npm packages could not be had.
var errNoPackages = errors.New("npm packages are not to be had")

// fetchTime bounds what npm takes: it is two libraries and a type checker.
const fetchTime = 3 * time.Minute

func main() {
	root := flag.String("root", "../web", "`folder` with src, dist and package.json")
	check := flag.Bool("check", false, "compare with the files on disk instead of writing them")
	flag.Parse()

	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "webbuild:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	root, err := filepath.Abs(root) // esbuild takes no other
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err = fetch(ctx, root)
	if check && errors.Is(err, errNoPackages) {
		fmt.Fprintln(os.Stderr, "webbuild: web/dist was not compared with web/src:", err)
		return nil
	}
	if err != nil {
		return err
	}
	if err := checkTypes(ctx, root); err != nil {
		return err
	}
	built, err := build(root)
	if err != nil {
		return err
	}
	if check {
		return compare(filepath.Join(root, "dist"), built)
	}
	return write(filepath.Join(root, "dist"), built)
}

// fetch installs what package-lock.json names, unless that is what is there.
func fetch(ctx context.Context, root string) error {
	wanted, err := os.Stat(filepath.Join(root, "package-lock.json"))
	if err != nil {
		return err
	}
	// npm writes this file when it has installed everything.
	there, err := os.Stat(filepath.Join(root, "node_modules", ".package-lock.json"))
	if err == nil && !there.ModTime().Before(wanted.ModTime()) {
		return nil
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return fmt.Errorf("%w: %w; install Node.js", errNoPackages, err)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	command := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=20000")
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: npm ci: %w\n%s", errNoPackages, err, output)
	}
	return nil
}

func checkTypes(ctx context.Context, root string) error {
	command := exec.CommandContext(ctx, filepath.Join(root, "node_modules", ".bin", "tsc"), "--project", root, "--pretty", "false")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("type check: %w\n%s", err, output)
	}
	return nil
}

// build returns the content of every file of dist by its name.
func build(root string) (map[string][]byte, error) {
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: root,
		EntryPointsAdvanced: []api.EntryPoint{
			{InputPath: "src/main.tsx", OutputPath: "app"},
			{InputPath: "src/style.css", OutputPath: "app"},
		},
		Outdir:            "dist",
		Bundle:            true,
		Format:            api.FormatIIFE, // a module script does not load from file://
		Target:            api.ES2022,
		Charset:           api.CharsetUTF8,
		JSX:               api.JSXAutomatic,
		JSXImportSource:   "preact",
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		LegalComments:     api.LegalCommentsNone, // licences.txt has them whole
		LogLevel:          api.LogLevelSilent,
	})
	if len(result.Errors)+len(result.Warnings) > 0 {
		var texts []string
		for _, message := range slices.Concat(result.Errors, result.Warnings) {
			text := message.Text
			if at := message.Location; at != nil {
				text = fmt.Sprintf("%s:%d:%d: %s", at.File, at.Line, at.Column, text)
			}
			texts = append(texts, text)
		}
		return nil, fmt.Errorf("esbuild: %s", strings.Join(texts, "\n\t"))
	}
	built := make(map[string][]byte)
	for _, file := range result.OutputFiles {
		built[filepath.Base(file.Path)] = file.Contents
	}
	if bytes.Contains(built["app.js"], []byte("</script")) || bytes.Contains(built["app.js"], []byte("<!--")) {
		return nil, errors.New("app.js holds what would end the script element that it is put into")
	}
	licences, err := gatherLicences(root)
	if err != nil {
		return nil, err
	}
	built["licences.txt"] = licences
	return built, nil
}

// gatherLicences joins the licences of the libraries that the page contains.
func gatherLicences(root string) ([]byte, error) {
	var all bytes.Buffer
	for _, library := range libraries {
		text, err := os.ReadFile(filepath.Join(root, "node_modules", library, "LICENSE"))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&all, "app.js contains %s:\n\n%s\n\n", library, bytes.TrimSpace(text))
	}
	return all.Bytes(), nil
}

func write(dist string, built map[string][]byte) error {
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return err
	}
	for name, content := range built {
		if err := os.WriteFile(filepath.Join(dist, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compare reports every built file that is missing on disk or differs.
func compare(dist string, built map[string][]byte) error {
	var drifted []string
	for name, content := range built {
		onDisk, err := os.ReadFile(filepath.Join(dist, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !bytes.Equal(onDisk, content) {
			drifted = append(drifted, name)
		}
	}
	if len(drifted) > 0 {
		slices.Sort(drifted)
		return fmt.Errorf("web/dist has drifted from web/src; run make generate: %s", strings.Join(drifted, ", "))
	}
	return nil
}
