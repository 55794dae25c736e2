package report

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// sitePages has one page of each kind that the site has, and ten at least.
var sitePages = []string{
	"index.html", "docs/guides/index.html", "docs/guides/moving-to-fastgrpc.html", "docs/load.html", "docs/statistics.html",
	"docs/rivals.html", "docs/glossary.html", "studies/kernel-study.html", "rpc/index.html",
	"gallery/index.html", "commands/wirelab_compare.html",
}

// serveDocuments builds the site (tools/site) with a report in its gallery, and returns its address. The test is in this
// package because the browser and axe-core are.
func serveDocuments(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	out, runs, commands := t.TempDir(), t.TempDir(), t.TempDir()
	var report bytes.Buffer
	err = errors.Join(WriteHTML(&report, fixtureRun(t)), os.Mkdir(filepath.Join(runs, "matrix"), 0o755), os.Mkdir(filepath.Join(commands, "commands"), 0o755),
		os.WriteFile(filepath.Join(runs, "matrix", "report.html"), report.Bytes(), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{
		{"test", "-count=1", "-run=^TestManPages$", "./cmd/wirelab", "-markdown=" + commands + "/commands"},
		{"-C", "tools", "run", "./site", "-root", root, "-out", out, "-commands", commands, "-gallery", runs},
	} {
		build := exec.Command("go", line...)
		build.Dir = root
		if said, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(line, " "), err, said)
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(out)))
	t.Cleanup(server.Close)
	return server.URL + "/"
}

// The site's pages have no error, ask nobody else for anything, can be read by those who cannot see them, and fit a
// phone. The first paint is printed, and not judged: it depends on the machine.
func TestSiteInBrowser(t *testing.T) {
	browser := startBrowser(t)
	axe := readAxe(t)
	browser.site = serveDocuments(t)
	for _, page := range sitePages {
		for _, theme := range []string{"light", "dark"} {
			t.Run(page+", "+theme, func(t *testing.T) {
				tab := browser.open(t, browser.site+page, prefer(theme))
				t.Logf("first paint after %s ms", ask(tab, chromedp.Evaluate[string](`new Promise((done) => {
					new PerformanceObserver((list) => list.getEntries().forEach(({ name, startTime }) => name === "first-contentful-paint" && done(startTime.toFixed(0))))
						.observe({ type: "paint", buffered: true });
				})`, chromedp.EvalAwaitPromise)))
				tab.screenshot("site-" + strings.ReplaceAll(page, "/", "-") + "-" + theme)
				for _, violation := range tab.violations(axe) {
					t.Error(violation)
				}
				tab.want("pictures without a size", `[...document.images].filter(i => !i.naturalWidth).length`, "0")
				tab.run(chromedp.EmulateViewport(360, 740))
				tab.want("pixels beside a phone's screen", "document.documentElement.scrollWidth - document.documentElement.clientWidth", "0")
				tab.screenshot("site-" + strings.ReplaceAll(page, "/", "-") + "-" + theme + "-360")
			})
		}
	}
	t.Run("search", func(t *testing.T) { searchByKeyboard(t, browser) })
}

// searchByKeyboard uses the search without a mouse: / goes to the field, Enter to the first hit, Escape ends it.
func searchByKeyboard(t *testing.T, browser browser) {
	t.Helper()
	tab := browser.open(t, browser.site+"docs/load.html")
	const hits = `document.querySelectorAll("#found:not([hidden]) a").length`
	press := func(keys string) {
		t.Helper()
		tab.run(chromedp.KeyEvent(keys))
	}
	press("/")
	tab.want("the focus", "document.activeElement.type", "search")
	press(kb.Escape) // the protocol types the / too, after its key
	press("outcomes of claims")
	tab.want("the field", "document.activeElement.value", "outcomes of claims")
	tab.until("hits", hits+" > 0")
	press(kb.Escape)
	tab.want("hits after Escape", hits, "0")
	press("claims")
	tab.until("hits again", hits+" > 0")
	tab.screenshot("site-search")
	first := ask(tab, chromedp.Evaluate[string](`document.querySelector("#found a").href`))
	press(kb.Enter)
	tab.until("the first hit", fmt.Sprintf("location.href === %q", first))
	if !strings.HasPrefix(first, browser.site) || !strings.Contains(first, "#") {
		t.Errorf("the first hit is %s, want a heading of the site", first)
	}
}

// until waits for a condition of the page.
func (tab *tab) until(what, condition string) {
	tab.t.Helper()
	if !ask(tab, chromedp.Evaluate[bool](`(async () => {
		for (let i = 0; i < 600 && !(`+condition+`); i++) await new Promise(done => setTimeout(done, 50));
		return `+condition+`;
	})()`, chromedp.EvalAwaitPromise)) {
		tab.t.Errorf("%s: not within 30 seconds", what)
	}
}
