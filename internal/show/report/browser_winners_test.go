package report

import (
	"fmt"
	"strings"
	"testing"

	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// The map says who wins at each size and number of clients, by how much, and whether
// that is proven.
func TestWinnersInBrowser(t *testing.T) {
	browser := startBrowser(t)
	run := fixtureRun(t)
	for i := range run.Summary.Cells {
		if c := &run.Summary.Cells[i]; c.Part == "matrix" && c.Variant == "rest" && c.RequestBytes == 1024 {
			c.Service.Mean.Value = 1 // wins there, though nothing compares it
		}
	}
	tab := browser.open(t, writePage(t, run))
	tile := func(row, column int) string {
		return fmt.Sprintf(`document.querySelectorAll(".map tbody tr")[%d].querySelectorAll("td")[%d]`, row, column)
	}
	tab.want("sizes and clients", `[...document.querySelectorAll(".map th")].map(th => th.textContent).join()`, "Size,1 client,10 clients,50 clients,100 clients,500 clients,64 B,256 B,1 KiB,4 KiB,64 KiB")
	tab.want("a proven lead", tile(0, 0)+".className.trim() + "+tile(0, 0)+".textContent", "tile tcp1.82× over rest")
	tab.want("one that was not compared", tile(0, 1)+".className.trim() + "+tile(0, 1)+".textContent", "tile unsure tcpbefore grpc, may be chance")
	tab.want("another winner", tile(2, 0)+".querySelector('span').textContent", " rest")
	tab.want("where the winner changes", tile(2, 0)+".className.includes('edge-top unsure-top') && "+tile(3, 0)+".className.includes('edge-top')", "true")
	tab.want("the caption", `document.querySelector("#winners .chart .note").textContent.split(".")[0]`, "tcp, rest are best somewhere; 3 of 25 leads are proven")
	tab.screenshotOf("winners", "#winners")
	rows := `[...document.querySelectorAll(".graded .forest tbody tr")]`
	tab.want("a line per stack that does not lead", rows+`.map(row => row.querySelector("th").firstChild.textContent).join()`, "rest,grpc")
	var marks []string // hollow without an interval above 1, and in a lead of several points that is not certain
	lead := rank.MainLeads(run.Summary)[0]
	for _, s := range lead.Standings {
		hollow := lead.Grade != rank.Certain && lead.Points > 1 || s.Ratio.Interval == nil || s.Ratio.Interval.Low <= 1
		marks = append(marks, map[bool]string{true: "circle", false: "right"}[hollow])
	}
	tab.want("the marks", rows+`.map(row => row.querySelector(".mark").classList[1]).join()`, strings.Join(marks, ","))

	t.Run("not of parts without a sweep", func(t *testing.T) {
		run := fixtureRun(t)
		var cells []matrix.Cell
		for _, c := range run.Summary.Cells {
			if c.Part != "matrix" || c.Clients == 1 {
				cells = append(cells, c)
			}
		}
		run.Summary.Cells = cells
		tab := browser.open(t, writePage(t, run))
		tab.want("sections", `document.querySelectorAll("#winners, nav a[href='#winners']").length`, "0")
	})
}
