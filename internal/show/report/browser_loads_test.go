package report

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// A run about loads shows what keeps a sweep from its ideal line, every rate
// that was tried, and what became of bursts and schedules.
func TestLoadsPageInBrowser(t *testing.T) {
	browser := startBrowser(t)
	address := writePage(t, fixtureLoads(t))
	sections := []string{"scaling", "search", "bursts", "course"}

	t.Run("shows every load", func(t *testing.T) {
		tab := browser.open(t, address)
		for _, id := range sections {
			tab.want("headings of section "+id, fmt.Sprintf(`document.querySelectorAll("section#%s h2").length`, id), "1")
			tab.want("in the index "+id, fmt.Sprintf(`document.querySelectorAll('nav a[href="#%s"]').length`, id), "1")
		}
		legend := func(id string) string {
			return fmt.Sprintf(`[...document.querySelectorAll("#%s .legend li")].map(li => li.textContent.trim()).join("; ")`, id)
		}
		first := func(id, selector string) string {
			return fmt.Sprintf(`document.querySelector("#%s %s").textContent`, id, selector)
		}
		tab.want("the diagnosis above the chart", `document.querySelector("#scaling .findings li").textContent.includes("use grpc:conn=pool:4")`, "true")
		tab.want("lines in the legend", legend("scaling"), "grpc:conn=shared; grpc:conn=pool:4")
		tab.want("columns of the figures", `[...document.querySelectorAll("#scaling .chart thead th")].map(th => th.textContent).join("; ")`,
			"Calls in flight; grpc:conn=shared; grpc:conn=shared, law; grpc:conn=shared, ideal; grpc:conn=pool:4; grpc:conn=pool:4, ideal")
		tab.want("the ideal of 48", `document.querySelector("#scaling .chart tbody tr:last-child").children[3].textContent`, "528,000/s")
		tab.want("why there is no law", `document.querySelector("#scaling > .exported tbody tr:last-child td:last-child").textContent`, "none: the trials do not agree on a law")

		tab.want("what was kept", `document.querySelector("#search tbody tr").children[2].textContent`, "4,000/s (3,760/s to 4,320/s)")
		tab.want("the knee", `document.querySelector("#search tbody tr").lastChild.textContent`, "4,040/s (4,000 to 4,080/s)")
		tab.want("a knee that is refused", `document.querySelectorAll("#search > .exported tbody tr")[1].lastChild.textContent`, "refused: a knee needs 5 rates with 2 tries each; the search has 4 such rates")
		tab.want("both tries of a rate", `document.querySelector("#search .chart tbody tr").textContent`, "3,200/s7.00 ms, 8.00 ms–10.0 ms")
		tab.click(`[...document.querySelectorAll("#search .choice label")][1].firstChild`)
		tab.want("the other search", first("search", ".chart tbody th"), "2,000/s")

		tab.want("a burst that drained", `document.querySelector("#bursts tbody tr").children[2].textContent`, "250 ms235 ms to 270 ms")
		tab.want("the one in the middle", `[...document.querySelectorAll("#bursts .chart tbody tr")].find(tr => tr.firstChild.textContent == "500").children[1].textContent`, "135 ms")

		tab.choose("Part", "sustained")
		tab.want("what was lost", `document.querySelectorAll("#course tbody tr")[1].children[1].textContent`, "2,998 of 3,00099.93 %")
		tab.choose("Part", "ramp")
		tab.want("the end of a ramp", `document.querySelector("#course .chart tbody tr:last-child").textContent`, "29.83,968/s2,500/s3,968/s")
		for _, id := range sections {
			if id == "course" {
				tab.screenshotOf("loads-"+id, "#"+id)
			}
		}
	})

	for _, theme := range []string{"light", "dark"} {
		t.Run("fits a telephone, "+theme, func(t *testing.T) {
			tab := browser.open(t, address, chromedp.EmulateViewport(360, 800), prefer(theme))
			tab.want("width of the page", "document.documentElement.scrollWidth", "360")
			for _, id := range sections {
				tab.screenshotOf("loads-"+theme+"-360-"+id, "#"+id)
			}
		})
	}
	t.Run("dark", func(t *testing.T) {
		tab := browser.open(t, address, prefer("dark"))
		tab.unfold()
		tab.want("charts drawn", `[...document.querySelectorAll("#scaling .plot > svg, #search .plot > svg, #bursts .plot > svg, #course .plot > svg")].filter(c => c.clientWidth > 300).length`, "5")
		for _, id := range sections {
			tab.screenshotOf("loads-dark-"+id, "#"+id)
		}
	})
}
