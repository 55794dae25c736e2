package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
)

// The page is opened as its reader opens it: from a file, in a real browser.
// With WIRELAB_SCREENSHOTS set to a folder, pictures of it are left there.
func TestPageInBrowser(t *testing.T) {
	browser := startBrowser(t)
	address := writePage(t, fixtureRun(t))

	t.Run("holds all sections", func(t *testing.T) {
		tab := browser.open(t, address)
		for _, id := range []string{"cells", "size", "concurrency", "percentiles", "tail", "comparisons", "limits", "crossovers", "warm-up", "reproduce"} {
			tab.want("headings of section "+id, fmt.Sprintf(`document.querySelectorAll("section#%s h2").length`, id), "1")
		}
		tab.want("the mode beside a variant that is compared", `document.querySelector("#comparisons .pairs td").textContent.trim()`, "tcp per-worker")
		tab.want("rows of cells", `document.querySelectorAll("table.cells tbody tr").length`, "116")
		tab.unfold()
		tab.want("charts drawn", `[...document.querySelectorAll(".plot > svg")].filter(c => c.clientWidth > 300).length`, "10")
		tab.want("charts with a name", `[...document.querySelectorAll(".plot")].filter(p => /tcp, rest, grpc/.test(p.ariaLabel)).length`, "10")
		tab.want("the distribution in steps", `[...document.querySelectorAll("#percentiles h3")].at(-1).textContent`, "Distribution of latency, 64 B, 500 clients")
		tab.want("the window in stretches", `document.querySelectorAll("#steady tbody tr").length`, "150")
		tab.want("the seed to the last digit", `document.querySelector("#reproduce dd").textContent`, "18446744073709551557")
		tab.want("the machine", `document.querySelector(".machine").textContent`,
			"AMD EPYC 9V74 <80-Core> · 2 cores · 7.64GiB memory · linux 6.18.2 amd64 · kvm · go1.26.8")
		tab.screenshot("light")
	})

	t.Run("sorts, last what has no figure", func(t *testing.T) {
		tab := browser.open(t, address)
		tab.want("at one look", `[...document.querySelectorAll("table.cells thead button")].map(b => b.textContent).join()`, "Stack,Part,Size,Clients,Throughput,Mean,±,P50,P99,Errors,CPU,Valid,Proven best,Load")
		tab.click(`[...document.querySelectorAll("#cells .choices label")].find(b => b.textContent === "All")`)
		column := `[...document.querySelectorAll("table.cells thead th")].findIndex(th => th.textContent.startsWith("P99/P50"))`
		cell := func(row string) string {
			return fmt.Sprintf(`[...document.querySelectorAll("table.cells tbody tr")].at(%s).children[%s].textContent`, row, column)
		}
		sort := `[...document.querySelectorAll("table.cells thead button")].find(b => b.textContent.startsWith("P99/P50"))`
		tab.click(sort)
		tab.want("smallest first", cell("0"), "1.88")
		tab.want("no figure last", cell("-1"), "–")
		tab.click(sort)
		tab.want("largest first", cell("0"), "53.0")
		tab.want("no figure last either way", cell("-1"), "–")
		tab.want("told to assistive tools", `document.querySelector("th[aria-sort=descending]").textContent`, "P99/P50 ↓")
	})

	t.Run("narrows by stack and size", func(t *testing.T) {
		tab := browser.open(t, address)
		tab.click(stackBox("rest"))
		tab.choose("Size", "64 KiB")
		tab.want("what is left", `document.querySelectorAll("table.cells tbody tr").length`, "14")
		tab.want("stacks left", `[...new Set([...document.querySelectorAll("table.cells tbody th")].map(th => th.textContent.trim()))].join()`, "tcp,grpc,grpcinvalid,tcp:inflight=50")
	})

	t.Run("says why a cell is invalid", func(t *testing.T) {
		tab := browser.open(t, address)
		tab.want("invalid rows", `document.querySelectorAll("table.cells tr.invalid").length`, "2")
		tab.click(`document.querySelector("table.cells tr.invalid .opener")`)
		tab.want("the reason", `document.querySelector(".findings .bad").textContent.includes("99 % of the CPU")`, "true")
		tab.screenshotOf("invalid", ".opened")
	})

	t.Run("draws the cells that are ticked", func(t *testing.T) {
		tab := browser.open(t, address)
		legend := `[...document.querySelector("#percentiles .legend").querySelectorAll("li")].map(li => li.textContent.trim()).join("; ")`
		tab.want("one point first", legend, "tcp; rest; grpc")
		tab.click(`document.querySelector("table.cells .pick input")`)
		tab.want("a cell more", legend, "tcp · c=1; tcp · c=500; rest; grpc")
	})

	t.Run("shows values to the keyboard", func(t *testing.T) {
		tab := browser.open(t, address)
		tab.run(chromedp.Focus(chromedp.CSS("#size .plot")), chromedp.KeyEvent(kb.ArrowRight))
		tab.want("the first point", `document.querySelector("#size .tip b").textContent`, "Message size 64 B")
		tab.screenshotOf("size", "#size")
		tab.screenshotOf("comparisons", "#comparisons")
		tab.screenshotOf("tail", "#tail")
		tab.screenshotOf("percentiles", "#percentiles")
	})

	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{360, 768, 1280} {
			t.Run(fmt.Sprintf("fits %d pixels, %s", width, theme), func(t *testing.T) {
				tab := browser.open(t, address, chromedp.EmulateViewport(width, 800), prefer(theme))
				tab.want("width of the page", "document.documentElement.scrollWidth", fmt.Sprint(width))
				tab.want("dark ground", `parseInt(getComputedStyle(document.body).backgroundColor.slice(4)) < 64`, fmt.Sprint(theme == "dark"))
				tab.screenshot(fmt.Sprintf("%s-%d", theme, width))
			})
		}
	}

	t.Run("prints light from a dark screen", func(t *testing.T) {
		tab := browser.open(t, address, prefer("dark"))
		ink := `getComputedStyle(document.querySelector("#size .mark path")).stroke`
		tab.want("on the screen", ink, "rgb(98, 174, 242)")
		tab.run(chromedp.Evaluate[chromedp.Void](`dispatchEvent(new Event("beforeprint"))`))
		tab.want("to the printer", ink, "rgb(11, 102, 184)")
		tab.run(chromedp.Evaluate[chromedp.Void](`dispatchEvent(new Event("afterprint"))`))
		tab.want("afterwards", ink, "rgb(98, 174, 242)")
		if printed := ask(tab, chromedp.PrintToPDF()); !bytes.HasPrefix(printed, []byte("%PDF-")) {
			t.Errorf("printing gave %d bytes that are no PDF", len(printed))
		}
	})

	t.Run("says what is missing of a run that had hardly begun", func(t *testing.T) {
		run := fixtureRun(t)
		run.Summary.Cells, run.Answer, run.Advice = run.Summary.Cells[:1], nil, nil
		run.Summary.Knees, run.Summary.Crossovers, run.Summary.Limits, run.Summary.WarmUps, run.Summary.Comparisons = nil, nil, nil, nil, nil
		run.Summary.Status, run.Summary.Done = record.Interrupted, 1
		tab := browser.open(t, writePage(t, run))
		tab.want("the banner", `document.querySelector(".banner").textContent.startsWith("A partial run: 1 of 276 trials done, interrupted.")`, "true")
		tab.want("charts: the percentiles, the distribution, the window, and both ends", `document.querySelectorAll(".chart").length`, "8")
		tab.want("sections with nothing to say", `document.querySelectorAll("#winners, #size, #concurrency, #tail, #comparisons").length`, "0")
		tab.screenshotOf("hardly", "#app")
	})

	t.Run("shows the answer, and all else at a click", func(t *testing.T) {
		run := fixtureRun(t)
		run.Answer, run.Advice = strings.Split("first,2,3", ","), strings.Split("4,5,6", ",")
		tab := browser.open(t, writePage(t, run))
		tab.want("in sight", `[document.querySelector(".answer"), ...document.querySelectorAll(".verdict > div .advice li")].map(e => e.textContent).join()`, "first,2,3")
		tab.want("a click away", `document.querySelector(".further summary").textContent + ": " + [...document.querySelectorAll(".further li")].map(e => e.textContent).join()`, "In full: 3 sentences: 4,5,6")
	})

	t.Run("opens for a run without a trial", func(t *testing.T) {
		tab := browser.open(t, writePage(t, &Run{Summary: &analysis.Summary{Name: "empty", Status: record.Running, Planned: 3}}))
		tab.want("rows", `document.querySelectorAll("table.cells tbody tr").length`, "0")
		tab.want("sections that the index names", `[...document.querySelectorAll("nav a")].every(a => document.querySelector(a.hash))`, "true")
	})

	t.Run("is read without JavaScript", func(t *testing.T) {
		tab := browser.open(t, address, withoutScripts)
		rows := ask(tab, chromedp.Evaluate[[]string](`[...document.querySelectorAll("noscript tbody tr")].map(tr => tr.textContent)`))
		notes := ask(tab, chromedp.Evaluate[[]string](`[...document.querySelectorAll("noscript p")].map(p => p.textContent)`))
		if len(rows) != 118 || !strings.Contains(rows[0], "95.3µs") {
			t.Errorf("%d rows without JavaScript, want 118 (116 cells, one of them with 3 lines)", len(rows))
		}
		if all := strings.Join(notes, "\n"); !strings.Contains(all, "out of memory <at mmap> & gave up") {
			t.Errorf("the reasons are missing: %s", all)
		}
	})
}

// A run about connections shows who survives, what resumption buys, and what
// was asked for and not achieved.
func TestLifecyclePageInBrowser(t *testing.T) {
	browser := startBrowser(t)
	address := writePage(t, fixtureLifecycle(t))

	t.Run("shows who survives", func(t *testing.T) {
		tab := browser.open(t, address)
		for _, id := range []string{"connections", "failures", "ends", "bytes", "setup"} {
			tab.want("headings of section "+id, fmt.Sprintf(`document.querySelectorAll("section#%s h2").length`, id), "1")
			tab.want("in the index "+id, fmt.Sprintf(`document.querySelectorAll('nav a[href="#%s"]').length`, id), "1")
		}
		row := func(variant string) string {
			return fmt.Sprintf(`[...document.querySelectorAll(".storm tbody tr")].find(tr => tr.firstChild.textContent.includes(%q))`, variant)
		}
		column := func(title string) string {
			return fmt.Sprintf(`[...document.querySelectorAll(".storm thead th")].findIndex(th => th.textContent == %q)`, title)
		}
		cell := func(variant, title string) string {
			return fmt.Sprintf("%s.children[%s].textContent", row(variant), column(title))
		}
		tab.want("variants with the most clients", `document.querySelectorAll(".storm tbody tr").length`, "10")
		tab.want("who answers all", cell("h1:conn=new,tls=on", "Answered"), "100 %")
		tab.want("who does not, though invalid", cell("naive", "Answered"), "41 %")
		tab.want("said to be invalid", row("naive")+".className", "invalid")
		tab.want("what was asked for and not achieved", cell("h3:conn=resumed", "As asked"), "86 %resumed")
		tab.want("how it came", cell("h3:conn=resumed", "Opened"), "15,0002,100 full, 12,900 resumed")
		tab.want("early data taken", cell("h3:conn=0rtt", "Opened"), "15,00015,000 resumed, 15,000 early")
		tab.want("the invalid one in the chart of survival", `document.querySelector("#connections .chart table tbody tr:last-child").textContent.includes("41 %")`, "true")
		tab.want("the failures by class", `[...document.querySelectorAll("#failures tbody th")].map(th => th.textContent).join()`, "port-exhaustion,reset,port-exhaustion,reset")
		tab.want("the first verbatim", `[...document.querySelectorAll("#failures q")].at(-1).textContent`, "read tcp 127.0.0.1:41213: connection reset by peer <RST>")
		tab.want("what resumption buys", `document.querySelector(".contrasts tbody tr").textContent`, "h1resumedover new, connection0.58×0.55× to 0.63×0.61×0.58× to 0.66×0.59×0.55× to 0.64×1.70×1.59× to 1.83×0.59×0.55× to 0.64×1×0.94× to 1.08×")
		tab.want("a setting that one variant of h3 has and another has not", `document.querySelector(".manifest tr.unlike th").textContent.includes("ClientSessionCache")`, "true")
		tab.want("settings in which variants of a stack differ, of three", `document.querySelectorAll(".manifest tr.unlike").length + "/" + document.querySelectorAll(".manifest tbody tr").length`, "2/3")
		tab.want("what h3 negotiated", `[...document.querySelectorAll(".negotiated tr")].find((row) => row.textContent.startsWith("h3")).textContent.includes("X25519MLKEM768")`, "true")
		tab.want("a limit that binds", `document.querySelector("#setup tr.invalid th").textContent`, "ports")
		tab.want("bars of a call's layers", `document.querySelectorAll("#bytes .bar svg").length`, "18")
		tab.screenshot("lifecycle")
		for _, id := range []string{"connections", "failures", "ends", "bytes", "setup"} {
			tab.screenshotOf("lifecycle-"+id, "#"+id)
		}
	})

	t.Run("shows another point", func(t *testing.T) {
		tab := browser.open(t, address)
		tab.choose("Clients", "10")
		tab.want("all survive", `[...new Set([...document.querySelectorAll(".answered")].map(a => a.textContent))].join()`, "100 %")
	})

	for _, theme := range []string{"light", "dark"} {
		t.Run("fits a telephone, "+theme, func(t *testing.T) {
			tab := browser.open(t, address, chromedp.EmulateViewport(360, 800), prefer(theme))
			tab.want("width of the page", "document.documentElement.scrollWidth", "360")
			for _, id := range []string{"connections", "ends", "bytes", "setup"} {
				tab.screenshotOf("lifecycle-"+theme+"-360-"+id, "#"+id)
			}
		})
	}
	t.Run("dark", func(t *testing.T) {
		tab := browser.open(t, address, prefer("dark"))
		tab.want("sections about connections", `document.querySelectorAll("#connections").length`, "1")
		tab.screenshotOf("lifecycle-dark-connections", "#connections")
		tab.screenshotOf("lifecycle-dark-bytes", "#bytes")
	})
}

// writePage writes the report into a file whose name needs escaping, and
// returns its address.
func writePage(t *testing.T, run *Run) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report of a run.html")
	var content bytes.Buffer
	if err := WriteHTML(&content, run); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file://" + strings.ReplaceAll(path, " ", "%20")
}
