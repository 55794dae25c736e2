package report

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// The page of a load begins with its course, in which a stall is seen.
func TestServicePageInBrowser(t *testing.T) {
	browser := startBrowser(t)
	stalling, failing, steps := writePage(t, fixtureService(t, "stalling")), writePage(t, fixtureService(t, "failing")), writePage(t, fixtureService(t, "steps"))

	t.Run("shows a stall where one was", func(t *testing.T) {
		tab := browser.open(t, stalling)
		tab.want("the first drawing", `document.querySelector(".chart h3").textContent`, "Rate")
		tab.want("its section", `document.querySelector("main section").id`, "time")
		tab.unfold()
		tab.want("drawn", `document.querySelector("#time .plot > svg").clientWidth > 300`, "true")
		tab.want("the warm-up named", `document.querySelector("#time .legend").textContent.includes("warm-up, counted in no figure")`, "true")
		// Rows of the chart's figures: the second, and what was answered in it.
		const rows = `[...document.querySelectorAll("#time .chart")].find(c => c.querySelector("h3").textContent === %q).querySelectorAll("tbody tr")`
		silent := fmt.Sprintf(`[...`+rows+`].map(tr => [parseFloat(tr.children[0].textContent), tr.children[1].textContent]).filter(([second, rate]) => second > 0 && rate === "0/s").map(([second]) => Math.floor(second))`, "Rate")
		tab.want("seconds that have one", `[...new Set(`+silent+`)].length >= 3`, "true")
		slowest := fmt.Sprintf(`[...`+rows+`].filter(tr => parseFloat(tr.children[0].textContent) > 0 && /^(19|2[0-9])\d(\.\d)? ms/.test(tr.children[1].textContent)).length >= 2`, "Response time")
		tab.want("peaks of the slowest", slowest, "true")
		tab.want("named in words", `[...document.querySelectorAll(".verdict .answer, .verdict li")].some(e => /answered almost no calls \d times/.test(e.textContent))`, "true")
		tab.want("words that puzzle", `document.querySelector("#app").innerText.includes("service:wire")`, "false")
		tab.screenshot("service-stalling")
	})

	t.Run("is short, figures first", func(t *testing.T) {
		tab := browser.open(t, stalling)
		tab.want("the figures", `[...document.querySelectorAll(".verdict .facts dt")].map(e => e.textContent).slice(0, 3).join()`, "Answered well,Requests,Failed")
		tab.want("before the sentences", `Boolean(document.querySelector(".facts").compareDocumentPosition(document.querySelector(".verdict .advice")) & Node.DOCUMENT_POSITION_FOLLOWING)`, "true")
		tab.want("few words", `document.body.innerText.split(/\s+/).length < 700`, "true")
		tab.want("both ends in sight", `[...document.querySelectorAll("#ends table.both th")].map(e => e.textContent).includes("Service") && document.querySelector("#ends table.both").getBoundingClientRect().right <= innerWidth`, "true")
		tab.want("the rest folded", `document.querySelector("#cells").closest("details").open`, "false")
		tab.click(`document.querySelector("nav a[href='#cells']")`)
		tab.want("opened by a link", `document.querySelector("#cells").closest("details").open`, "true")
		tab.screenshot("service-opened")
	})

	t.Run("shows what failed, and when", func(t *testing.T) {
		tab := browser.open(t, failing)
		tab.want("charts in order", `[...document.querySelectorAll("#time h3")].map(h => h.textContent).join()`, "Rate,Response time,Failures,CPUs in use")
		tab.want("the outage", `[...document.querySelectorAll("#time .chart")][2].querySelector("table").textContent.includes("100 %")`, "true")
		tab.want("statuses", `[...document.querySelectorAll(".statuses tbody th")].map(th => th.textContent).join()`, "200 OK,503 Service Unavailable")
		tab.want("an example", `document.querySelector(".errors q").textContent`, "the server answered 503 Service Unavailable")
		tab.want("sections in order", `[...document.querySelectorAll("main section")].map(s => s.id).slice(0, 6).join()`, "time,latency,answers,opened,ends,checks")
		tab.want("the index has each of them once", `[...document.querySelectorAll("nav a")].map(a => a.hash.slice(1)).join() === [...document.querySelectorAll("main section")].map(s => s.id).join()`, "true")
		tab.screenshot("service-failing")
	})

	t.Run("shows what more clients bring", func(t *testing.T) {
		tab := browser.open(t, steps)
		tab.want("curves", `[...document.querySelectorAll("#steps h3")].map(h => h.textContent.split(" against")[0]).slice(0, 2).join()`, "Throughput,P99 of the response time")
		tab.want("numbers of clients", `[...document.querySelector("#steps tbody").querySelectorAll("th")].map(th => th.textContent).join()`, "1,4,16")
		tab.want("the point that is shown", `document.querySelector("#answers .where").textContent.startsWith("Shown: 16 clients.")`, "true")
		tab.choose("Clients", "4")
		tab.want("all sections follow the filter", `document.querySelectorAll("#answers .where, #steps").length + " " + document.querySelectorAll(".cells tbody tr").length`, "0 1")
		tab.screenshot("service-steps")
	})

	for _, theme := range []string{"light", "dark"} {
		t.Run("fits a telephone, "+theme, func(t *testing.T) {
			tab := browser.open(t, failing, chromedp.EmulateViewport(360, 800), prefer(theme))
			tab.want("width of the page", "document.documentElement.scrollWidth", "360")
			tab.screenshot("service-" + theme + "-360")
		})
	}

	t.Run("prints", func(t *testing.T) {
		tab := browser.open(t, failing, prefer("dark"))
		if printed := ask(tab, chromedp.PrintToPDF()); len(printed) < 20_000 {
			t.Errorf("printing gave %d bytes", len(printed))
		}
	})
}
