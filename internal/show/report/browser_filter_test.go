package report

import (
	"bytes"
	"fmt"
	"testing"

	"wirelab.dev/internal/base/build"

	"github.com/chromedp/chromedp"
)

// One filter narrows every block of the page, and stands in the address.
func TestFilterInBrowser(t *testing.T) {
	browser := startBrowser(t)
	address := writePage(t, fixtureRun(t))
	// The blocks that name a variant which the filter left out.
	named := func(variant string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("main section:not(#setup, #reproduce, #glossary)")].filter(s => [...s.querySelectorAll("th, td, .legend, .bar-name")].some(e => new RegExp("(^|[^a-z])%s([^a-z]|$)").test(e.textContent))).map(s => s.id).join()`, variant)
	}
	tab := browser.open(t, address)
	tab.unfold()
	tab.want("blocks with rest before", named("rest")+".split(',').length > 8", "true")
	tab.click(stackBox("rest"))
	tab.want("blocks with rest after", named("rest"), "")
	tab.choose("Size", "4 KiB")
	tab.want("sizes of cells", `[...document.querySelectorAll(".cells tbody [data-title=Size]")].length`, "0") // all have one, which needs no column
	tab.want("the point of the percentiles", `document.querySelector("#percentiles h3").textContent.startsWith("Latency by percentile, 4 KiB")`, "true")
	tab.want("the sweep of one size", `document.querySelectorAll("#size").length`, "0")
	tab.want("the index follows", `document.querySelectorAll("nav a[href='#size']").length`, "0")
	tab.want("the address", "location.hash", "#?no-stack=rest&size=4+KiB")
	again := browser.open(t, ask(tab, chromedp.Evaluate[string]("location.href")))
	again.want("opened again", `document.querySelector("#percentiles h3").textContent.startsWith("Latency by percentile, 4 KiB") + document.querySelector(".filters summary").textContent`, "trueStacks: 3 of 4")
	again.click(`[...document.querySelectorAll(".filters button")].find(b => b.textContent === "Show all")`)
	again.want("all again", `document.querySelectorAll(".cells tbody tr").length + location.hash`, "116")
}

// What the reader has chosen elsewhere is still chosen when the filter changes, also in a section
// that the filter took away for a while.
func TestFilterKeepsChoicesInBrowser(t *testing.T) {
	tab := startBrowser(t).open(t, writePage(t, fixtureRun(t)))
	tab.unfold()
	tab.click(`[...document.querySelectorAll(".cells thead button")].find(b => b.textContent === "P99")`)
	tab.click(`[...document.querySelectorAll(".cells .opener")].find(b => b.textContent.trim() === "grpc" && /4 KiB/.test(b.closest("tr").textContent) && /matrix/.test(b.closest("tr").textContent))`)
	tab.click(`document.querySelectorAll("#size .legend button")[1]`)
	tab.click(`document.querySelector("#concurrency .chart details summary")`)
	tab.click(`[...document.querySelectorAll("#winners .choices label")].find(l => l.textContent === "P99").querySelector("input")`)
	tab.click(`document.querySelectorAll(".cells .pick input:not(:checked)")[0]`)
	ticked := `[...document.querySelectorAll(".cells .pick input:checked")].length`
	before := ask(tab, chromedp.Evaluate[int](ticked))
	tab.run(chromedp.Evaluate[chromedp.Void](dragged("#concurrency .plot"), chromedp.EvalAwaitPromise))
	state := `[
		document.querySelector(".cells [aria-sort=ascending]")?.textContent,
		document.querySelectorAll(".cells .opened").length,
		[...document.querySelectorAll("#size .legend button")].map(b => b.ariaPressed).join(),
		document.querySelector("#concurrency .chart details").open,
		document.querySelector("#winners .choices input:checked").parentElement.textContent,
		[...document.querySelectorAll("#concurrency .legend button")].some(b => b.textContent === "Show all again"),
	].join("; ")`
	const kept = "P99 ↑; 1; true,false,true; true; P99; true"
	tab.want("before", state, kept)
	tab.click(stackBox("tcp:inflight=50"))
	tab.want("without a stack", state, kept)
	tab.choose("Size", "4 KiB")
	tab.want("sections of several sizes", `document.querySelectorAll("#size, #winners").length`, "0")
	tab.choose("Size", "all")
	tab.unfold()
	tab.want("with all sizes again", state, kept)
	tab.want("ticks", ticked, fmt.Sprint(before))
}

// The page is short at first, on all screens, and its filter and its index are in sight whole.
func TestPageIsShortInBrowser(t *testing.T) {
	browser := startBrowser(t)
	for name, run := range map[string]*Run{"matrix": fixtureRun(t), "lifecycle": fixtureLifecycle(t), "loads": fixtureLoads(t), "service": fixtureService(t, "failing"), "insights": fixtureInsights(t, insides...)} {
		address := writePage(t, run)
		for _, width := range []int64{390, 1300} {
			t.Run(fmt.Sprintf("%s, %d pixels", name, width), func(t *testing.T) {
				tab := browser.open(t, address, chromedp.EmulateViewport(width, 900))
				tab.click("document.body") // the charts have learnt their width
				const most = 5000
				tab.want("pixels beyond the limit", fmt.Sprintf(`Math.max(0, document.documentElement.scrollHeight - %d)`, most), "0")
				tab.want("width of the page", "document.documentElement.scrollWidth", fmt.Sprint(width))
				tab.want("links of the index beyond the edge", `[...document.querySelectorAll("nav a")].filter(a => a.getBoundingClientRect().right > innerWidth).length`, "0")
				tab.want("a link opens what is folded", `(() => { const fold = document.querySelector("#reproduce").closest("details"), before = fold.open; document.querySelector(".product a").click(); return before; })()`, "false")
				tab.click("document.body")
				tab.want("the glossary", `document.querySelector("#glossary").closest("details").open + " " + document.querySelectorAll("#glossary dt").length`, "true 10")
				tab.screenshot(fmt.Sprintf("short-%s-%d", name, width))
			})
		}
	}
}

// A narrow screen shows the cells as cards, with all main figures.
func TestCellsOnTelephoneInBrowser(t *testing.T) {
	tab := startBrowser(t).open(t, writePage(t, fixtureRun(t)), chromedp.EmulateViewport(390, 844))
	tab.want("figures in sight", `[...document.querySelector(".cells tbody tr").querySelectorAll("td:not(.pick)")].every(td => td.getBoundingClientRect().right <= innerWidth)`, "true")
	tab.want("each with its name", `[...document.querySelector(".cells tbody tr").querySelectorAll("td[data-title]")].map(td => getComputedStyle(td, "::before").content).includes('"P99 "')`, "true")
	tab.screenshotOf("cells-390", "#cells")
}

// The browser prints a summary of one page; all is printed only where that is asked for.
func TestPrintInBrowser(t *testing.T) {
	browser := startBrowser(t)
	pages := func(tab *tab) int {
		printed := ask(tab, chromedp.PrintToPDF())
		keep(t, "printed.pdf", printed)
		return bytes.Count(printed, []byte("/Type /Page\n"))
	}
	for name, run := range map[string]*Run{"matrix": fixtureRun(t), "lifecycle": fixtureLifecycle(t), "service": fixtureService(t, "failing")} {
		tab := browser.open(t, writePage(t, run))
		if got := pages(tab); got != 1 {
			t.Errorf("%s: a summary of %d pages", name, got)
		}
		tab.unfold()
		tab.run(chromedp.Evaluate[chromedp.Void](`document.documentElement.classList.add("print-all")`))
		if got := pages(tab); got < 3 {
			t.Errorf("%s: all of it in %d pages", name, got)
		}
	}
}

// What it takes to measure again is copied with the version and the machine.
func TestReproduceInBrowser(t *testing.T) {
	run := fixtureRun(t)
	run.Summary.Build = &build.Info{Version: "v0.1.0-test", Go: "go1.26.8", Platform: "linux/amd64"}
	tab := startBrowser(t).open(t, writePage(t, run))
	copied := ask(tab, chromedp.Evaluate[string](`new Promise((done) => {
		Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => done(text) }, configurable: true });
		document.querySelector("#reproduce button").click();
	})`, chromedp.EvalAwaitPromise))
	for _, want := range []string{"# wirelab v0.1.0-test, go1.26.8, linux/amd64\n", "# AMD EPYC", "# seed 18446744073709551557\n", "\nwirelab "} {
		if !bytes.Contains([]byte(copied), []byte(want)) {
			t.Errorf("%q is missing in %q", want, copied)
		}
	}
}
