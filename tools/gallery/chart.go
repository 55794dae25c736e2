package main

import (
	"errors"
	"fmt"
	"html"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// saver presses the button that saves the first chart of a report, and leaves the file's address as the page's only text.
const saver = `<script>addEventListener("load", () => setTimeout(() => {
	HTMLAnchorElement.prototype.click = function () {
		document.documentElement.replaceChildren(Object.assign(document.createElement("body"), { textContent: this.href }));
	};
	document.querySelector(".verdict figure .export button").click();
}, 500));</script>`

var (
	saved = regexp.MustCompile(`<body>data:image/svg\+xml;charset=utf-8,([^<]*)</body>`)
	size  = regexp.MustCompile(`width="(\d+)" height="(\d+)"`)
	font  = regexp.MustCompile(` font-family="[^"]*"`)
)

// chartOf returns the first chart of a report as SVG, as the page saves it, in the reader's light or dark mode.
func chartOf(report string) (string, error) {
	page, err := os.ReadFile(report)
	if err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp("", "gallery-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	file := filepath.Join(folder, "report.html")
	if err := os.WriteFile(file, append(page, saver...), 0o600); err != nil {
		return "", err
	}
	var charts [2]string
	for theme := range charts { // Chromium's numbers: 0 dark, 1 light
		// A narrow window, so that the chart's words can be read on a phone.
		shown, err := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=560,900", "--virtual-time-budget=5000",
			fmt.Sprintf("--blink-settings=preferredColorScheme=%d", theme), "--dump-dom", "file://"+file).Output()
		if err != nil {
			return "", fmt.Errorf("open %s with chromium: %w", report, err)
		}
		found := saved.FindSubmatch(shown)
		if found == nil {
			return "", fmt.Errorf("%s saves no chart: look whether its first screen has one", report)
		}
		if charts[theme], err = url.PathUnescape(html.UnescapeString(string(found[1]))); err != nil {
			return "", err
		}
	}
	return bothModes(charts[1], charts[0])
}

// bothModes makes one drawing of two. The reader's mode says which is shown.
func bothModes(light, dark string) (string, error) {
	wide := size.FindStringSubmatch(light)
	if wide == nil || !strings.HasPrefix(light, "<svg ") || !strings.HasPrefix(dark, "<svg ") {
		return "", errors.New("the saved chart is no SVG with a width and a height: mend web/src/picture.ts")
	}
	family := font.FindString(light) // the page's; half of the file, if each text names it
	light, dark = strings.ReplaceAll(light, family, ""), strings.ReplaceAll(dark, family, "")
	// The viewBox lets a narrow page shrink it.
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" %s%s>`, wide[1], wide[2], wide[0], family) +
		"<style>.dark { display: none } @media (prefers-color-scheme: dark) { .light { display: none } .dark { display: inline } }</style>" +
		`<svg class="light"` + strings.TrimPrefix(light, "<svg") + `<svg class="dark"` + strings.TrimPrefix(dark, "<svg") + "</svg>\n", nil
}
