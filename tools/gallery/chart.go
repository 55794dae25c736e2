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
	saved  = regexp.MustCompile(`<body>data:image/svg\+xml;charset=utf-8,([^<]*)</body>`)
	colour = regexp.MustCompile(`rgba?\([^)]*\)`)
	font   = regexp.MustCompile(` font-family="[^"]*"`)
	size   = regexp.MustCompile(`width="(\d+)" height="(\d+)"`)
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

// bothModes makes one drawing of two that differ in their colours. Each pair of colours becomes a variable.
func bothModes(light, dark string) (string, error) {
	if colour.ReplaceAllString(light, "") != colour.ReplaceAllString(dark, "") {
		return "", errors.New("the chart in light mode differs from that in dark mode by more than its colours: mend web/src/picture.ts")
	}
	darks := colour.FindAllString(dark, -1)
	names := map[[2]string]string{}
	var inLight, inDark strings.Builder
	next := 0
	drawing := colour.ReplaceAllStringFunc(light, func(one string) string {
		pair := [2]string{one, darks[next]}
		next++
		if names[pair] == "" {
			names[pair] = fmt.Sprintf("--c%d", len(names))
			fmt.Fprintf(&inLight, " %s: %s;", names[pair], pair[0])
			fmt.Fprintf(&inDark, " %s: %s;", names[pair], pair[1])
		}
		return "var(" + names[pair] + ")"
	})
	family := font.FindString(drawing) // of the whole page
	drawing = strings.ReplaceAll(drawing, family, "")
	style := fmt.Sprintf("<style>svg {%s } @media (prefers-color-scheme: dark) { svg {%s } }</style>", inLight.String(), inDark.String())
	drawing = strings.Replace(drawing, ">", family+">"+style, 1)
	if wide := size.FindStringSubmatch(drawing); wide != nil { // so that a narrow page can shrink it
		drawing = strings.Replace(drawing, wide[0], fmt.Sprintf(`viewBox="0 0 %s %s" %s`, wide[1], wide[2], wide[0]), 1)
	}
	return drawing + "\n", nil
}
