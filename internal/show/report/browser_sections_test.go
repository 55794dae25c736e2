package report

import (
	"testing"

	"wirelab.dev/internal/judge/analysis/matrix"
)

// A section that has nothing to draw is not there, and a variant looks the same in every
// one that is.
func TestSectionsThatSaySomething(t *testing.T) {
	browser := startBrowser(t)
	run := fixtureRun(t)
	for i := range run.Summary.Cells {
		c := &run.Summary.Cells[i]
		c.RequestBytes, c.ResponseBytes = 64, 64<<(i%5) // answers of other sizes each, so that requests make no line
		c.Clients = 1 + i
	}
	tab := browser.open(t, writePage(t, run))
	tab.want("charts of dots alone", `document.querySelectorAll("#size, nav a[href='#size']").length`, "0")

	run = fixtureRun(t)
	var cells []matrix.Cell
	for i, size := range []int{64, 640, 4096} {
		c := run.Summary.Cells[0]
		c.Part, c.RequestBytes, c.ResponseBytes = "answers", 64, size
		c.Service.Mean.Value = 100 * float64(i+1)
		cells = append(cells, c)
	}
	run.Summary.Cells = cells
	run.Summary.Comparisons, run.Summary.Knees, run.Summary.Crossovers, run.Summary.Limits, run.Summary.WarmUps = nil, nil, nil, nil, nil
	tab = browser.open(t, writePage(t, run))
	tab.want("answers by their size", `document.querySelector("#size h3").textContent`, "Mean against size of the answer, 1 client")
	tab.want("a line through them", `[...document.querySelectorAll("#size tbody tr")].map(tr => tr.firstChild.textContent).join()`, "64 B,640 B,4 KiB")
	tab.want("colours of both ends that no stack has", `(css => [..."01234567"].some(n => ["--end-client", "--end-server"].some(end => css.getPropertyValue(end) == css.getPropertyValue("--stack-" + n))))(getComputedStyle(document.documentElement))`, "false")
}
