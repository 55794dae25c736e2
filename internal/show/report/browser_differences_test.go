package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// The differences are drawn with their intervals, the clearest first, and lie in a table
// in the scenario's order.
func TestDifferencesInBrowser(t *testing.T) {
	browser := startBrowser(t)
	run := fixtureRun(t)
	like := run.Summary.Comparisons[0]
	run.Summary.Comparisons = nil
	differ := func(part, a, b string, metric string, ratio float64, verdict compare.Verdict) {
		c := like
		c.Part, c.A, c.B, c.Metric, c.Verdict = part, a, b, metric, verdict
		c.RequestBytes, c.ResponseBytes = 64, 64
		c.Ratio = fixtureFigure(ratio)
		run.Summary.Comparisons = append(run.Summary.Comparisons, c)
	}
	differ("sweep", "rest", "grpc", matrix.Mean, 0.5, compare.Faster)
	differ("sweep", "tcp", "grpc", matrix.Mean, 1.01, compare.Equivalent)
	differ("matrix", "tcp", "rest", matrix.Mean, 0.9, compare.Undecided)
	differ("matrix", "tcp", "grpc", matrix.Mean, 0.25, compare.Faster)
	differ("matrix", "tcp", "grpc", matrix.Throughput, 4, compare.Faster)
	for clients := 2; clients < 30; clients++ {
		differ("matrix", "tcp", "rest", matrix.Mean, 0.8, compare.Faster)
		run.Summary.Comparisons[len(run.Summary.Comparisons)-1].Clients = clients
	}
	address := writePage(t, run)

	tab := browser.open(t, address)
	line := func(place string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("main .forest tbody tr")].at(%s)`, place)
	}
	tab.want("lines at first", `document.querySelectorAll("main .forest tbody tr").length`, "8")
	tab.want("the clearest against the part's first", line("0")+".textContent", " grpc over  tcpmatrix, 64 B, 1 client4×3.70× to 4.26×slower")
	tab.want("its mark", line("0")+`.querySelector(".strip .mark").classList`, "mark right")
	tab.want("right of 1", fmt.Sprintf(`parseFloat(%s.querySelector(".mark").getAttribute("x")) > parseFloat(%[1]s.querySelector("line[stroke-width='2']").getAttribute("x1"))`, line("0")), "true")
	tab.want("the caption", `document.querySelector("main .forest .note").textContent.startsWith("30 of 32 pairs certainly differ, 1 is equal within a margin.")`, "true")
	tab.want("those without a verdict, in one line", `[...document.querySelectorAll("main .forest > .note")].at(-1).textContent`, "1 pair: undecided, the interval contains 1.")
	tab.click(`document.querySelector("main .forest .more button")`)
	tab.want("all lines", `document.querySelectorAll("main .forest tbody tr").length`, "32")
	tab.want("undecided last", line("-1")+`.querySelector(".said").textContent + " " + `+line("-1")+`.querySelector(".strip .mark").classList`, "undecided mark circle")
	tab.want("equal within the margin, before it", line("-2")+`.querySelector(".said").textContent`, "equal within 5 %")
	tab.click(`[...document.querySelectorAll("#comparisons .choice label")].find(l => l.textContent == "Throughput").firstChild`)
	tab.want("of the other figure", `[...document.querySelectorAll("main .forest tbody tr")].map(tr => tr.textContent).join()`, " grpc over  tcpmatrix, 64 B, 1 client0.25×0.23× to 0.27×slower")

	tab.want("a table a part, as the scenario has them", `[...document.querySelectorAll("#comparisons summary")].map(s => s.textContent).join()`, "matrix: 30 pairs, 30 of 31 figures with a verdict,sweep: 2 pairs, 2 of 2 figures with a verdict")
	tab.want("figures of a pair side by side", `[...document.querySelectorAll(".pairs tbody tr")].find(tr => tr.textContent.includes("slower")).textContent`, " grpc shared tcp per-worker64 B14× slower3.70× to 4.26×0.25× slower0.23× to 0.27×")
	tab.want("its width", `(d => { d.forEach(d => d.open = true); return [...document.querySelectorAll(".pairs")].every(p => p.scrollWidth <= p.parentElement.clientWidth); })(document.querySelectorAll("#comparisons details"))`, "true")
	tab.screenshotOf("differences", "#comparisons")

	for _, width := range []int64{360, 1300} {
		narrow := browser.open(t, address, chromedp.EmulateViewport(width, 800))
		narrow.want("width of the page", "document.documentElement.scrollWidth", fmt.Sprint(width))
	}
}

// What is claimed stands as a mark beside the interval that was measured.
func TestClaimedInBrowser(t *testing.T) {
	run := fixtureRun(t)
	run.Summary.Claims = []compare.Claim{
		{Says: "it halves it", ClaimedRatio: new(0.5), Ratio: new(fixtureFigure(0.6)), Outcome: compare.Smaller},
		{Says: "it is more", Ratio: new(fixtureFigure(1.2)), Outcome: compare.Compatible},
		{Says: "it lies between", AtLeast: new(3.0), Ratio: new(fixtureFigure(4)), Outcome: compare.Compatible},
		{Says: "nobody looked", ClaimedRatio: new(2.0), Outcome: compare.Unmeasured},
	}
	tab := startBrowser(t).open(t, writePage(t, run))
	lines := ask(tab, chromedp.Evaluate[[]string](`[...document.querySelectorAll("#claims .forest tbody tr")].map(tr => tr.textContent)`))
	if got, want := strings.Join(lines, "; "), "it halves it0.60×0.56× to 0.65×smallerclaimed: 0.50×; it is more1.20×1.13× to 1.30×compatible"; got != want {
		t.Errorf("lines: %q, want %q", got, want)
	}
	tab.want("marks of claims", `[...document.querySelectorAll("#claims .claimed")].map(i => parseFloat(i.getAttribute("x")) < parseFloat(i.parentElement.querySelector(".mark").getAttribute("x"))).join()`, "true")
	tab.screenshotOf("claimed", "#claims")
}
