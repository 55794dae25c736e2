package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// axe-core judges the page as those who cannot see it, or use no mouse, would have it.
// It is a development dependency of web, and no part of the page.
func TestPageIsAccessible(t *testing.T) {
	browser := startBrowser(t)
	axe := readAxe(t)
	for name, run := range map[string]*Run{"matrix": fixtureRun(t), "lifecycle": fixtureLifecycle(t), "loads": fixtureLoads(t), "service": fixtureService(t, "failing"), "steps of a service": fixtureService(t, "steps"), "insights": fixtureInsights(t, insides...)} {
		address := writePage(t, run)
		for _, view := range []struct {
			theme string
			width int64
		}{{"light", 1300}, {"dark", 1300}, {"light", 390}, {"dark", 390}} {
			t.Run(fmt.Sprintf("%s, %s, %d pixels", name, view.theme, view.width), func(t *testing.T) {
				tab := browser.open(t, address, chromedp.EmulateViewport(view.width, 900), prefer(view.theme))
				tab.click(`(document.querySelectorAll("details").forEach(details => details.open = true), document.querySelector(".cells .opener") ?? document.body)`)
				if found := tab.violations(axe); len(found) > 0 {
					t.Error(strings.Join(found, "\n"))
				}
			})
		}
	}
}

// readAxe returns the script of axe-core.
func readAxe(t *testing.T) string {
	t.Helper()
	axe, err := os.ReadFile("../../../web/node_modules/axe-core/axe.min.js")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("axe-core is not installed: npm ci in web")
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(axe)
}

// violations returns what axe-core finds on the page as it is shown.
func (tab *tab) violations(axe string) []string {
	tab.t.Helper()
	tab.run(chromedp.Evaluate[chromedp.Void](axe + "; undefined"))
	return ask(tab, chromedp.Evaluate[[]string](`(async () => {
		document.querySelectorAll("details").forEach(details => details.open = true);
		await new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)));
		const { violations } = await axe.run(document, { resultTypes: ["violations"] });
		return violations.map(v => v.id + ": " + v.help + "\n\t" + v.nodes.length + " of " + v.nodes.slice(0, 4).map(n => n.target.join(" ") + " " + (n.any[0] ?? n.all[0] ?? n.none[0])?.message).join("\n\t"));
	})()`, chromedp.EvalAwaitPromise))
}
