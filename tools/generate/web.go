package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/evanw/esbuild/pkg/api"
)

// libraries are bundled into the page, together with their licences.
var libraries = []string{"preact"}

// errNoPackages says that the npm packages could not be installed.
var errNoPackages = errors.New("the npm packages could not be installed")

// fetchTimeout limits npm: it fetches a library and a type checker.
const fetchTimeout = 3 * time.Minute

// buildPage returns the content of every file of web/dist by its name. esbuild's Go
// API bundles web/src; npm brings the library that the page uses, and the type
// checker. Package web embeds the result, so wirelab itself builds without npm.
func buildPage(ctx context.Context, web string) (map[string][]byte, error) {
	web, err := filepath.Abs(web) // esbuild needs an absolute path
	if err != nil {
		return nil, err
	}
	if err := installPackages(ctx, web); err != nil {
		return nil, err
	}
	types := exec.CommandContext(ctx, filepath.Join(web, "node_modules", ".bin", "tsc"), "--project", web, "--pretty", "false")
	if output, err := types.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("type check: %w\n%s", err, output)
	}
	return bundle(web)
}

// installPackages installs the packages in package-lock.json, unless they are already installed.
func installPackages(ctx context.Context, root string) error {
	wanted, err := os.Stat(filepath.Join(root, "package-lock.json"))
	if err != nil {
		return err
	}
	// npm writes this file after it has installed all packages.
	there, err := os.Stat(filepath.Join(root, "node_modules", ".package-lock.json"))
	if err == nil && !there.ModTime().Before(wanted.ModTime()) {
		return nil
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return fmt.Errorf("%w: %w; install Node.js", errNoPackages, err)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=20000")
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: npm ci: %w\n%s", errNoPackages, err, output)
	}
	return nil
}

// bundle returns the content of every file of dist by its name.
func bundle(root string) (map[string][]byte, error) {
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
		LegalComments:     api.LegalCommentsNone,                        // licences.txt holds the full licences
		Loader:            map[string]api.Loader{".md": api.LoaderText}, // the glossary
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
		return nil, errors.New("app.js contains </script or <!--, which would end the script element around it")
	}
	for _, library := range libraries {
		text, err := os.ReadFile(filepath.Join(root, "node_modules", library, "LICENSE"))
		if err != nil {
			return nil, err
		}
		built["licences.txt"] = fmt.Appendf(built["licences.txt"], "app.js contains %s:\n\n%s\n\n", library, bytes.TrimSpace(text))
	}
	return built, nil
}
