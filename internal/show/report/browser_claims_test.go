package report

import (
	"testing"

	"github.com/chromedp/chromedp"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/insight"
)

// TestClaimsAndAllocationsInBrowser shows what the study of gRPC in Go asks for.
func TestClaimsAndAllocationsInBrowser(t *testing.T) {
	browser := startBrowser(t)
	run := fixtureRun(t)
	figure := func(variant string, value float64) compare.ClaimFigure {
		return compare.ClaimFigure{Figure: "server-cpu", Part: "matrix", Variant: variant, Payload: record.Payload{RequestBytes: 64}, Clients: 1, Value: new(fixtureFigure(value))}
	}
	run.Summary.Claims = []compare.Claim{
		{
			Row: "F1", Says: "a codec halves it", Part: "matrix", Find: `ratio("server-cpu", "tcp", "grpc")`, ClaimedRatio: new(0.5),
			Figures: []compare.ClaimFigure{figure("tcp", 16), figure("grpc", 20)}, But: "it says otherwise elsewhere",
			Pairs: 3, Ratio: new(fixtureFigure(0.8)), Outcome: compare.Smaller,
		},
		{Says: "nobody looked", Part: "matrix", Outcome: compare.Unmeasured, Reason: "no mean of tcp in matrix"},
	}
	long := []string{"a.com/rpc.serve", "a.com/rpc.handle", "b.Handler", "b.read", "a.com/rpc.Recv", "c.Unmarshal"}
	allocation := func(variant, end string, bytes float64) insight.Allocation {
		return insight.Allocation{
			Part: "allocations", Variant: variant, End: end, Trials: 1, Calls: 1000, Bytes: bytes, Objects: 12,
			Functions: []insight.Allocator{{Function: "a.com/codec.Copy", Bytes: 0.9, Objects: 0.4}},
			Tree:      []insight.Branch{{Functions: long, Bytes: 0.95, Objects: 0.5, Calls: []insight.Branch{{Functions: []string{"a.com/codec.Copy"}, Bytes: 0.9, Objects: 0.4}}}},
		}
	}
	run.Summary.Allocations = []insight.Allocation{
		allocation("grpc", insight.ServerEnd, 2<<20), allocation("grpc", insight.ClientEnd, 2048), allocation("tcp", insight.ServerEnd, 64),
	}
	address := writePage(t, run)
	tab := browser.open(t, address)
	tab.want("a claim's outcome", `document.querySelector("#claims .claims .outcome").textContent`, "smaller")
	tab.want("what is claimed, and what was found", `document.querySelector("#claims .claims li > small.interval").textContent.startsWith("Claimed 0.5×, here 0.80× (0.75× to 0.86×), from 3 repeats")`, "true")
	tab.want("how many stand how", `[...document.querySelectorAll("#claims .standings span")].map(e => e.textContent).join()`, "smaller 1,open 1")
	tab.want("what stands against it", `document.querySelector("#claims .claims li").textContent.includes("But it says otherwise elsewhere")`, "true")
	tab.want("why not", `document.querySelector("#claims .claims li:last-child").textContent.includes("no mean of tcp in matrix")`, "true")
	tab.want("what was not measured", `document.querySelector("#claims .claims li:last-child").textContent.includes("no figure here")`, "true")
	tab.want("the bytes of each", `[...document.querySelectorAll("#allocations table")][0].querySelector("tbody td").textContent`, "2 MiB")
	path := `document.querySelector("#allocations .path").textContent`
	tab.want("a long way, shortened", path, "rpc.serve → 3 more → rpc.Recv → c.Unmarshal")
	tab.click(`document.querySelector("#allocations .path button")`)
	tab.want("the whole way", path, "rpc.serve → rpc.handle → b.Handler → b.read → rpc.Recv → c.Unmarshal")
	tab.want("what is called, further in", `document.querySelectorAll("#allocations .path")[1].textContent`, "codec.Copy")
	tab.click(`[...document.querySelectorAll("#allocations .choice label")].find(l => l.textContent == "tcp").firstChild`)
	tab.want("an end that there is", `[...document.querySelectorAll("#allocations .note")][1].textContent`, "Functions that allocate memory themselves, in the server of tcp: 1,000 calls.")

	narrow := browser.open(t, address, chromedp.EmulateViewport(360, 800))
	narrow.want("width of the page", "document.documentElement.scrollWidth", "360")
}
