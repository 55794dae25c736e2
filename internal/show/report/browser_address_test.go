package report

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// What a reader has chosen stands in the page's address, and the address opens it
// again.
func TestPageAddressInBrowser(t *testing.T) {
	browser := startBrowser(t)
	address := writePage(t, fixtureRun(t))
	rows := `[...document.querySelectorAll("table.cells tbody tr")]`
	view := fmt.Sprintf(`JSON.stringify([%s.map(row => row.textContent).join(), document.querySelectorAll("table.cells th[aria-sort]").length])`, rows)

	tab := browser.open(t, address)
	tab.want("an address of its own", "location.hash", "")
	tab.click(`[...document.querySelectorAll("#cells .choices label")].find(b => b.textContent === "All")`)
	p999 := `[...document.querySelectorAll("table.cells thead button")].find(b => b.textContent.startsWith("P99.9"))`
	tab.click(p999)
	tab.click(p999)
	tab.click(stackBox("rest"))
	tab.run(chromedp.SendKeys(chromedp.CSS("#cells input[type=search]"), "MATRIX 64 kib"))
	tab.want("the address", "location.hash", "#?figures=all&sort=-p999&no-stack=rest&find=MATRIX+64+kib")
	kept := ask(tab, chromedp.Evaluate[string]("location.href"))
	seen := ask(tab, chromedp.Evaluate[string](view))
	tab.want("rows that were found", `[...document.querySelectorAll("#cells > .note")].at(-1).textContent`, "10 of 78 rows, all with 64 KiB")

	t.Run("opens again", func(t *testing.T) {
		tab := browser.open(t, kept)
		if got := ask(tab, chromedp.Evaluate[string](view)); got != seen {
			t.Errorf("the address opens another view:\n%s\nwant\n%s", got, seen)
		}
		tab.want("told to assistive tools", `document.querySelector("th[aria-sort=descending]").textContent`, "P99.9 ↓")
		tab.want("the words", `document.querySelector("#cells input[type=search]").value`, "MATRIX 64 kib")
		tab.click(`document.querySelector('nav a[href="#tail"]')`)
		tab.want("a section with the choices", "location.hash", "#tail?figures=all&sort=-p999&no-stack=rest&find=MATRIX+64+kib")
		tab.run(chromedp.Evaluate[chromedp.Void](`new Promise(done => {
			const look = () => Math.abs(document.getElementById("tail").getBoundingClientRect().top) < innerHeight ? done() : setTimeout(look, 30);
			look();
		})`, chromedp.EvalAwaitPromise))
	})

	t.Run("opens at the section", func(t *testing.T) {
		tab := browser.open(t, address+"#tail?find=tcp")
		tab.want("in sight", `document.getElementById("tail").getBoundingClientRect().top < innerHeight`, "true")
	})

	t.Run("takes the usual for what it does not know", func(t *testing.T) {
		tab := browser.open(t, address+"#cells?sort=nonsense&figures=%3Cb%3E&no-stack=other&time=1&=&%")
		tab.want("rows", rows+".length", "116")
		tab.want("at one look", `document.querySelectorAll("table.cells thead button").length`, "14")
	})
}
