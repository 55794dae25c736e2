package report

import (
	"testing"

	"github.com/chromedp/chromedp"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/compare"
)

// TestLeversInBrowser draws an interval for each lever, and names those that were not tried.
func TestLeversInBrowser(t *testing.T) {
	browser := startBrowser(t)
	run := fixtureRun(t)
	run.Summary.Levers = []compare.LeverTest{{
		Part: "levers", Place: record.Place{Workload: "echo", Payload: record.Payload{RequestBytes: 64, ResponseBytes: 64}, Clients: 4},
		Metric: "mean", Plain: "grpc:gogc=10", Time: new(fixtureFigure(200)), Against: "grpc", Gap: new(fixtureFigure(2)),
		Levers: []compare.LeverEffect{
			{Name: "gogc=400", Variant: "grpc:gogc=400", Ratio: new(fixtureFigure(0.6)), Share: new(fixtureFigure(0.8)), CPU: new(fixtureFigure(0.7)), Verdict: compare.Faster},
			{Name: "codec=vt2", Variant: "grpc:codec=vt2", Ratio: new(fixtureFigure(1)), Verdict: compare.Equivalent, Margin: 0.05},
			{Name: "tls=on", Variant: "grpc:tls=on", Ratio: new(fixtureFigure(1.5)), Verdict: compare.Slower},
			{Name: "busy-server=20us", Variant: "grpc:busy-server=20us", Ratio: new(fixtureFigure(1.3)), IsDelay: true, Slope: new(fixtureFigure(3)), Verdict: compare.Undecided},
			{Name: "gogc=off", Variant: "grpc:gogc=off", Verdict: compare.Undecided},
		},
		NotTried: []scenario.LeftOut{{Name: "smallobject=64KiB", Why: "it builds a runtime"}},
	}}
	address := writePage(t, run)
	tab := browser.open(t, address)
	row := func(n string) string { return `document.querySelector("#levers tbody tr:nth-child(` + n + `)")` }
	tab.want("the cell", `document.querySelector("#levers figcaption .note").textContent`, "echo, 64 B, 4 clients: 200 µs without a lever; 2× that of grpc")
	tab.want("levers with a figure", `document.querySelectorAll("#levers tbody tr").length`, "4")
	tab.want("the lever", row("1")+`.querySelector("th code").textContent`, "gogc=400")
	tab.want("its share and CPU time", row("1")+`.querySelector("th small").textContent.includes("of the difference to grpc; CPU time 0.70×")`, "true")
	tab.want("its verdict", row("1")+`.querySelector(".said").textContent`, "moves it")
	tab.want("its mark", row("1")+`.querySelector("svg.mark.left") !== null`, "true")
	tab.want("a lever without an effect", row("2")+`.querySelector(".said").textContent`, "equal within 5 %")
	tab.want("a lever that harms", row("3")+`.querySelector("svg.mark.right") !== null`, "true")
	tab.want("a delay", row("4")+`.querySelector(".said").textContent`, "3 µs per µs")
	tab.want("what was not tried", `document.querySelector("#levers details li").textContent`, "smallobject=64KiB: it builds a runtime")

	narrow := browser.open(t, address, chromedp.EmulateViewport(360, 800))
	narrow.want("width of the page", "document.documentElement.scrollWidth", "360")
}
