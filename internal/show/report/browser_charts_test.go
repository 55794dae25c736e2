package report

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// exported clicks the button of an export in the first match of the selector, and returns the data
// of the file, or the copied text.
func exported(tab *tab, selector, format string) string {
	tab.t.Helper()
	return ask(tab, chromedp.Evaluate[string](`new Promise((done) => {
		HTMLAnchorElement.prototype.click = function () { done(this.href); };
		Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => done(text) }, configurable: true });
		[...document.querySelector("`+selector+`").querySelectorAll(".export button")].find((button) => button.textContent === "`+format+`").click();
	})`, chromedp.EvalAwaitPromise))
}

// Every chart is saved as SVG and PNG, and every table as CSV and Markdown.
func TestExportsInBrowser(t *testing.T) {
	tab := startBrowser(t).open(t, writePage(t, fixtureRun(t)))
	tab.unfold()
	tab.want("figures without an export", `[...document.querySelectorAll("figure")].filter(f => !f.querySelector(".export")).length`, "0")
	tab.want("tables without an export", `[...document.querySelectorAll("main table")].filter(t => !t.closest("figure, .exported, .detail")).length`, "0")
	for _, selector := range []string{"#size figure", "#comparisons figure", "#ends figure", "#winners figure", ".verdict figure"} {
		data := exported(tab, selector, "SVG")
		_, escaped, _ := strings.Cut(data, ",")
		text, err := url.PathUnescape(escaped)
		if err != nil || !strings.HasPrefix(data, "data:image/svg+xml") {
			t.Fatalf("%s: %v: %.60s", selector, err, data)
		}
		elements := map[string]int{}
		for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", selector, err)
			}
			if start, ok := token.(xml.StartElement); ok {
				elements[start.Name.Local]++
			}
		}
		if elements["text"] < 3 || elements["path"]+elements["rect"] < 3 || strings.Contains(text, "var(") && !strings.Contains(text, "rgb(") {
			t.Errorf("%s: elements %v", selector, elements)
		}
		keep(t, "export-"+strings.Trim(strings.Fields(selector)[0], "#.")+".svg", []byte(text))
	}
	_, encoded, _ := strings.Cut(exported(tab, "#size figure", "PNG"), ",")
	picture, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil || decoded.Bounds().Dx() < 1000 {
		t.Fatalf("PNG: %v", err)
	}
	colours := map[[3]uint32]bool{}
	for x := range decoded.Bounds().Dx() {
		for y := 0; y < decoded.Bounds().Dy(); y += 3 {
			r, g, b, _ := decoded.At(x, y).RGBA()
			colours[[3]uint32{r >> 8, g >> 8, b >> 8}] = true
		}
	}
	if !colours[[3]uint32{11, 102, 184}] || !colours[[3]uint32{255, 255, 255}] {
		t.Errorf("%d colours in the picture, tcp's or the ground's not among them", len(colours))
	}
	keep(t, "export-size.png", picture)

	_, escaped, _ := strings.Cut(exported(tab, "#cells .exported", "CSV"), ",")
	text, err := url.PathUnescape(escaped)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 117 || rows[0][0] != "Stack" || rows[1][0] != "tcp" {
		t.Fatalf("CSV: %v, %d rows: %.200s", err, len(rows), text)
	}
	lines := strings.Split(exported(tab, "#cells .exported", "Markdown"), "\n")
	if len(lines) != 119 || !strings.HasPrefix(lines[0], "| Stack | Part | Size |") || !strings.HasPrefix(lines[1], "| --- | --- |") || !strings.HasPrefix(lines[2], "| tcp | matrix | 64 B |") {
		t.Errorf("Markdown: %d lines: %s", len(lines), strings.Join(lines[:3], "\n"))
	}
}

// A saved picture has the hatchings and the borders of the page, in colours that all programs know.
func TestPicturesInBrowser(t *testing.T) {
	browser := startBrowser(t)
	pages := map[string]string{"insights": writePage(t, fixtureInsights(t, insides...)), "matrix": writePage(t, fixtureRun(t))}
	for _, theme := range []string{"light", "dark"} {
		for _, c := range []struct{ page, selector, ground string }{
			{"insights", "#why .life", map[string]string{"light": "#ffffff", "dark": "#1c2024"}[theme]},
			{"matrix", "#winners figure", map[string]string{"light": "#ffffff", "dark": "#1c2024"}[theme]},
		} {
			tab := browser.open(t, pages[c.page], prefer(theme))
			tab.unfold()
			_, escaped, _ := strings.Cut(exported(tab, c.selector, "SVG"), ",")
			text, err := url.PathUnescape(escaped)
			if err != nil {
				t.Fatal(err)
			}
			keep(t, "picture-"+c.page+"-"+theme+".svg", []byte(text))
			used := regexp.MustCompile(`url\(#([^)]+)\)`).FindAllStringSubmatch(text, -1)
			for _, one := range used {
				if !strings.Contains(text, `id="`+one[1]+`"`) {
					t.Errorf("%s, %s: %s is not in the file", c.selector, theme, one[0])
				}
			}
			if len(used) == 0 {
				t.Errorf("%s, %s: no hatching", c.selector, theme)
			}
			if !strings.Contains(text, `height="100%" fill="`+c.ground+`"`) {
				t.Errorf("%s, %s: the ground is not %s: %.300s", c.selector, theme, c.ground, text)
			}
			if c.page == "matrix" && !strings.Contains(text, `stroke-width="4"`) {
				t.Errorf("%s: no heavy line between winners", c.selector)
			}
			for _, only := range []string{"color(", "color-mix(", "var(--", "rgba("} {
				if found := regexp.MustCompile(`(?:fill|stroke|stop-color)="[^"]*` + regexp.QuoteMeta(only)).FindString(text); found != "" {
					t.Errorf("%s, %s: a colour that only browsers know: %s", c.selector, theme, found)
				}
			}
		}
	}
	tab := browser.open(t, pages["insights"])
	tab.unfold()
	tab.run(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach(details => details.open = true); new Promise((done) => setTimeout(done, 50))`, chromedp.EvalAwaitPromise))
	tab.want("figures without an export", `[...document.querySelectorAll("figure")].filter(f => !f.querySelector(".export")).length`, "0")
	tab.want("tables without an export", `[...document.querySelectorAll("main table")].filter(t => !t.closest(".exported, .detail") && !t.closest("figure:not(.flame, .tail)")).length`, "0")
}

// dragged draws the pointer over the middle of a chart.
func dragged(selector string) string {
	return `(async () => {
		const plot = document.querySelector("` + selector + `"), box = plot.getBoundingClientRect();
		const wait = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)));
		for (const [type, share] of [["pointerdown", 0.15], ["pointermove", 0.3], ["pointermove", 0.68], ["pointerup", 0.68]]) {
			plot.dispatchEvent(new PointerEvent(type, { clientX: box.left + share * box.width, clientY: box.top + 50, button: 0, bubbles: true }));
			await wait();
		}
	})()`
}

// What rests on too little is drawn hollow; legends hide and isolate lines, and a drag zooms.
func TestChartsInBrowser(t *testing.T) {
	browser := startBrowser(t)
	run := fixtureRun(t)
	for i := range run.Summary.Cells {
		if c := &run.Summary.Cells[i]; c.Variant == "grpc" {
			c.Service.Mean.Interval = nil
		}
	}
	address := writePage(t, run)
	const lines = `[...document.querySelectorAll("#size .plot g.line")]`
	const legend = `[...document.querySelectorAll("#size .legend button")]`

	t.Run("what is not certain is faint and hollow", func(t *testing.T) {
		tab := browser.open(t, address)
		tab.unfold()
		tab.want("marks", lines+`.map(line => line.querySelector(".mark path").getAttribute("fill") === "var(--raised)").join()`, "false,false,true")
		tab.want("lines", lines+`.map(line => line.getAttribute("opacity")).join()`, "1,1,0.6")
		tab.want("the legend says so", `document.querySelector("#size .legend").textContent.includes("no interval")`, "true")
		tab.want("the scale", `document.querySelector("#size .y-label").textContent`, "Mean, log scale")
		tab.run(chromedp.Evaluate[chromedp.Void](`{ const plot = document.querySelector("#size .plot"); plot.focus(); plot.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true })); new Promise((done) => setTimeout(done, 50)); }`, chromedp.EvalAwaitPromise))
		tab.want("under the pointer: interval and trials", `[...document.querySelectorAll("#size .tip small")].map(s => / to .*; \d of \d trials valid|no interval; \d of \d trials valid/.test(s.textContent)).join()`, "true,true,true")
		tab.screenshotOf("charts-hollow", "#size")
	})

	t.Run("legends hide and isolate", func(t *testing.T) {
		tab := browser.open(t, address)
		tab.unfold()
		tab.click(legend + `[1]`)
		tab.want("two lines", lines+`.length + " " + `+legend+`.map(b => b.ariaPressed).join()`, "2 true,false,true")
		tab.click(legend + `[1]`)
		tab.run(chromedp.Evaluate[chromedp.Void](legend+`[1].dispatchEvent(new MouseEvent("click", { shiftKey: true, bubbles: true })); new Promise((done) => setTimeout(done, 50))`, chromedp.EvalAwaitPromise))
		tab.want("one line", lines+`.length + " " + `+legend+`.map(b => b.ariaPressed).join()`, "1 false,true,false")
	})

	t.Run("a drag zooms, and a click shows all again", func(t *testing.T) {
		tab := browser.open(t, address)
		tab.unfold()
		ticks := `[...document.querySelectorAll("#size .frame text[text-anchor=middle]")].slice(0, -1).map(t => t.textContent).join()`
		tab.want("all sizes", ticks, "64 B,256 B,1 KiB,4 KiB,64 KiB")
		tab.run(chromedp.Evaluate[chromedp.Void](dragged("#size .plot"), chromedp.EvalAwaitPromise))
		tab.want("the sizes between", ticks, "256 B,1 KiB,4 KiB")
		tab.click(`[...document.querySelectorAll("#size .legend button")].find(b => b.textContent === "Show all again")`)
		tab.want("all again", ticks, "64 B,256 B,1 KiB,4 KiB,64 KiB")
	})

	t.Run("few sizes are bars beside each other", func(t *testing.T) {
		run := fixtureRun(t)
		kept := run.Summary.Cells[:0]
		for _, c := range run.Summary.Cells {
			if c.Part == "matrix" && c.RequestBytes <= 256 {
				kept = append(kept, c)
			}
		}
		run.Summary.Cells = kept
		tab := browser.open(t, writePage(t, run))
		tab.unfold()
		tab.want("bars", `document.querySelectorAll("#size .plot g.line > rect").length`, "6")
		tab.want("the axis begins at zero", `[...document.querySelectorAll("#size .frame text[text-anchor=end]")][0].textContent + document.querySelector("#size .y-label").textContent`, "0Mean")
		tab.want("percentiles from P10", `document.querySelector("#percentiles .frame text[text-anchor=middle]").textContent`, "P10")
		tab.want("marks on its lines", `[...document.querySelectorAll("#percentiles .plot")[0].querySelectorAll("g.line")].every(line => line.querySelectorAll(".mark").length >= 2)`, "true")
		tab.screenshotOf("charts-bars", "#size")
	})
}
