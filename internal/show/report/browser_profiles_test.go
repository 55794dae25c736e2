package report

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"wirelab.dev/internal/judge/analysis/insight"
)

// TestProfilesInBrowser shows where time goes, by pointer and by keyboard.
func TestProfilesInBrowser(t *testing.T) {
	browser := startBrowser(t)
	run := fixtureRun(t)
	run.Summary.Profiles = fixtureProfiles()
	address := writePage(t, run)
	open := func(t *testing.T) flameTab { return openFlames(t, browser, address, still("light")) }

	t.Run("shares what both ends have", func(t *testing.T) {
		tab := open(t)
		tab.want("the heading", `document.querySelector("#profiles h2").textContent`, "Where the time and the memory go")
		tab.want("in the index", `document.querySelectorAll('nav a[href="#profiles"]').length`, "1")
		tab.want("both ends", tab.all("", ".flame h3"), "Client: CPU time of matrix, grpc, echo, 1 KiB, 50 clients; Server: CPU time of matrix, grpc, echo, 1 KiB, 50 clients")
		tab.want("what a call costs the server", tab.all("Server", ".note"), "10.0 µs per call, estimated from 20,000 samples.")
		tab.want("categories", tab.all("Server", ".groups li"),
			"kernel: network 40.0 %; encoding 15.0 %; scheduler 15.0 %; headers 10.0 %; garbage collector 10.0 %; memory 5.0 %; RPC library 5.0 %")
		tab.want("their sum", tab.sumOfGroups("Server"), "100.0")
		tab.choose("package")
		tab.want("packages, by what is theirs alone", tab.all("Server", ".groups li"),
			"kernel 40.0 %; runtime 30.0 %; google.golang.org/protobuf/proto 15.0 %; golang.org/x/net/http2/hpack 10.0 %; google.golang.org/grpc 5.0 %")
		tab.want("their sum", tab.sumOfGroups("Server"), "100.0")
		tab.click(tab.one("Server", ".flame details summary"))
		tab.want("by function", tab.all("Server", ".flame tbody tr:first-child td, .flame tbody tr:first-child th"), "30.0 %; 3.00 µs; 30.0 %; tcp_write_xmit kernel")
		tab.choose("Allocated bytes")
		tab.want("in bytes", tab.all("", ".flame .note"), "2 KiB per call, estimated from 4,000 samples.")
		tab.choose("Waiting")
		tab.want("what was counted", tab.all("", ".flame .note"), "120 µs per call, counted.")
	})

	t.Run("finds what is searched for", func(t *testing.T) {
		tab := open(t)
		for query, want := range map[string]string{
			"tcp_write":          "30.0",
			"TCP_SENDMSG":        "40.0",
			"write":              "50.0", // in several frames of a stack, which counts once
			"/^tcp_write_xmit":   "0.0",  // a text, for it does not end with a slash
			"/^tcp_write_xmit$/": "30.0",
			"/^copy_|xmit$/":     "40.0",
			"nowhere":            "0.0",
		} {
			tab.search(query)
			tab.want("share of "+query, tab.all("Server", ".found")+`.split(" of all")[0]`, want+" %")
		}
		tab.search("protobuf")
		tab.want("in full", tab.all("Server", ".found"), "20.0 % of all is in stacks with a match: 2.00 µs per call.")
		tab.want("functions", tab.all("", ".choice small"), "2 functions")
		tab.search("/(/")
		tab.want("what is no expression", tab.all("", ".choice small")+`.includes("Invalid regular expression")`, "true")
		tab.want("no share of it", tab.all("Server", ".found"), "")
	})

	t.Run("zooms and goes back", func(t *testing.T) {
		tab := open(t)
		zoomed := tab.one("Server", ".flames") + ".dataset.zoomed"
		tab.clickFrame("Server", 0.1, 6)
		tab.want("what was clicked", zoomed, "net.(*conn).Write")
		tab.want("in words", tab.all("Server", ".told"), "net.(*conn).Write · 40.0 % · 4.00 µs per call")
		tab.clickFrame("Server", 0.9, 12) // as wide as the whole was
		tab.want("further", zoomed, "copy_from_iter (kernel)")
		tab.press("Server", kb.Escape)
		tab.want("back", zoomed, "net.(*conn).Write")
		tab.click(tab.one("Server", ".flame-bar button"))
		tab.want("out", zoomed, "")
		tab.clickFrame("Server", 0.1, 6)
		tab.clickFrame("Server", 0.5, 0)
		tab.want("out by the row of all", zoomed, "")
		tab.want("layouts", tab.one("Server", ".flames")+".dataset.layouts", "1")
	})

	t.Run("moves to what was clicked", func(t *testing.T) {
		tab := openFlames(t, browser, address)
		tab.clickFrame("Server", 0.1, 6)
		tab.run(chromedp.Evaluate[chromedp.Void](`(async () => { // far more than it takes
			for (const began = performance.now(); performance.now() < began + 500;) await new Promise(requestAnimationFrame);
		})()`, chromedp.EvalAwaitPromise))
		tab.pointAt("Server", 0.9, 12)
		tab.want("as wide as the whole was", tab.all("Server", ".tip b"), "copy_from_iter (kernel)")
	})

	t.Run("is walked by keys", func(t *testing.T) {
		tab := open(t)
		told := tab.all("Server", ".told")
		for _, step := range []struct{ key, want string }{
			{kb.ArrowDown, "all · 100.0 % · 10.0 µs per call"},
			{kb.ArrowDown, "runtime.goexit · 75.0 % · 7.50 µs per call"},
			{kb.ArrowRight, "runtime.mcall · 15.0 % · 1.50 µs per call"},
			{kb.ArrowRight, "runtime.gcBgMarkWorker · 10.0 % · 1.00 µs per call"},
			{kb.ArrowRight, "runtime.gcBgMarkWorker · 10.0 % · 1.00 µs per call"}, // there is none beyond
			{kb.ArrowDown, "runtime.systemstack · 10.0 % · 1.00 µs per call"},
			{kb.ArrowLeft, "runtime.park_m · 15.0 % · 1.50 µs per call"},
			{kb.ArrowUp, "runtime.mcall · 15.0 % · 1.50 µs per call"},
			{kb.Enter, "runtime.mcall · 15.0 % · 1.50 µs per call"},
			{kb.ArrowLeft, "runtime.mcall · 15.0 % · 1.50 µs per call"}, // the neighbours are out of sight
			{kb.ArrowDown, "runtime.park_m · 15.0 % · 1.50 µs per call"},
			{kb.Backspace, "runtime.park_m · 15.0 % · 1.50 µs per call"},
			{kb.ArrowLeft, "http.(*http2serverConn).serve · 75.0 % · 7.50 µs per call"},
			{kb.Home, "all · 100.0 % · 10.0 µs per call"},
		} {
			tab.press("Server", step.key)
			want := strings.Replace(step.want, "http.(*http2", "net/http.(*http2", 1)
			tab.want(fmt.Sprintf("after %q", step.key), told, want)
		}
		tab.want("told to assistive tools", tab.one("Server", ".told")+".ariaLive", "polite")
		tab.want("has the focus", `document.activeElement == `+tab.one("Server", ".flames"), "true")
		tab.want("which is seen", `getComputedStyle(document.activeElement).outlineStyle`, "solid")
	})

	t.Run("merges from the innermost function", func(t *testing.T) {
		tab := open(t)
		tab.choose("innermost functions")
		for _, want := range []string{
			"all · 100.0 % · 10.0 µs per call", "tcp_write_xmit (kernel) · 30.0 % · 3.00 µs per call",
			"tcp_sendmsg (kernel) · 30.0 % · 3.00 µs per call", "ksys_write (kernel) · 30.0 % · 3.00 µs per call",
		} {
			tab.press("Server", kb.ArrowDown)
			tab.want("downwards", tab.all("Server", ".told"), want)
		}
		tab.press("Server", kb.Enter)
		tab.compareWith("tcp")
		tab.want("another graph, not zoomed", tab.all("Server", ".told"), "all · 100.0 % · 6.00 µs per call · against A −4.00 µs, 0.60×")
	})

	t.Run("says what is under the pointer", func(t *testing.T) {
		tab := open(t)
		tab.pointAt("Server", 0.42, 7)
		tab.want("the tip", tab.all("Server", ".tip > *"),
			"google.golang.org/protobuf/proto.Unmarshal; 15.0 % · 1.50 µs per call; 10.0 %, 1.00 µs per call by itself; encoding 66.7 %, memory 33.3 %")
		tab.screenshotOf("profiles-tip", "#profiles")
	})

	t.Run("compares two cells", func(t *testing.T) {
		tab := open(t)
		tab.compareWith("tcp")
		tab.want("which is which", `document.querySelectorAll("#profiles > .note")[1].textContent`,
			"Widths are from B, matrix, tcp, echo, 1 KiB, 50 clients; colours show how much more or less time a call takes in B than in A, matrix, grpc, echo, 1 KiB, 50 clients.")
		tab.want("what they cost", tab.all("Server", "figcaption .note"), "B 6.00 µs per call, 12,000 samples; A 10.0 µs, 20,000 samples.")
		tab.want("rows, without those of A alone", tab.one("Server", ".flames > div")+".style.height", "200px")
		tab.want("categories", tab.all("Server", ".groups li"),
			"kernel: network 66.6 % the same; garbage collector 16.7 % +4.00 ns, 1.00×, which may be chance; scheduler 12.5 % −750 ns, 0.50×; RPC library 4.2 % −250 ns, 0.50×; encoding 0.0 % −1.50 µs, gone; memory 0.0 % −500 ns, gone; headers 0.0 % −1.00 µs, gone")
		tab.press("Server", kb.ArrowDown)
		tab.press("Server", kb.ArrowDown)
		tab.want("what shrank", tab.all("Server", ".told"), "runtime.goexit · 70.8 % · 4.25 µs per call · against A −3.25 µs, 0.57×")
		tab.press("Server", kb.ArrowDown)
		tab.want("what is new", tab.all("Server", ".told"), "wirelab.dev/internal/wire/stack/tcp.(*server).serve · 70.8 % · 4.25 µs per call · against A +4.25 µs, new")
		tab.want("what is gone", tab.all("Server", ".gone li"), "net/http.(*http2serverConn).serve −7.50 µs per call beneath runtime.goexit")
		tab.want("gone at the client", tab.all("Client", ".gone li"), "wirelab.dev/internal/run/load.(*worker).run −2.00 µs per call beneath runtime.goexit")
		tab.search("tcp_sendmsg")
		tab.want("a search in both", tab.all("Server", ".found"), "66.6 % of all is in stacks with a match: 4.00 µs per call; in A 4.00 µs per call.")
		tab.search("")
		tab.screenshotOf("profiles-compared", "#profiles")
		tab.compareWith("nothing")
		tab.want("and no longer", tab.all("Server", "figcaption .note"), "10.0 µs per call, estimated from 20,000 samples.")
	})

	t.Run("lights up a category", func(t *testing.T) {
		tab := open(t)
		tab.click(`[...document.querySelectorAll("#profiles .groups button")].find(b => b.textContent.includes("kernel"))`)
		tab.want("pressed at both ends", `document.querySelectorAll("#profiles .groups [aria-pressed=true]").length`, "2")
		tab.screenshotOf("profiles-lit", "#profiles")
		tab.choose("tcp")
		tab.want("in another cell too", `document.querySelectorAll("#profiles .groups [aria-pressed=true]").length`, "2")
	})

	t.Run("prints light from a dark screen", func(t *testing.T) {
		tab := openFlames(t, browser, address, prefer("dark"))
		corner := `(() => {
			const copy = document.createElement("canvas").getContext("2d");
			copy.drawImage(document.querySelector("#profiles .flames canvas"), 0, 0);
			return [...copy.getImageData(2, 2, 1, 1).data].join();
		})()`
		tab.want("on the screen", corner, "41,47,52,255")
		tab.run(chromedp.Evaluate[chromedp.Void](`dispatchEvent(new Event("beforeprint"))`))
		tab.want("to the printer", corner, "233,235,236,255")
		tab.run(chromedp.Evaluate[chromedp.Void](`dispatchEvent(new Event("afterprint"))`))
		tab.want("afterwards", corner, "41,47,52,255")
		printed := ask(tab.tab, chromedp.PrintToPDF())
		if !bytes.HasPrefix(printed, []byte("%PDF-")) {
			t.Errorf("printing gave %d bytes that are no PDF", len(printed))
		}
		keep(t, "profiles.pdf", printed)
	})

	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{360, 700, 1400} {
			t.Run(fmt.Sprintf("fits %d pixels, %s", width, theme), func(t *testing.T) {
				tab := openFlames(t, browser, address, chromedp.EmulateViewport(width, 900), still(theme))
				tab.want("width of the page", "document.documentElement.scrollWidth", fmt.Sprint(width))
				tab.screenshotOf(fmt.Sprintf("profiles-%s-%d", theme, width), "#profiles")
				tab.compareWith("tcp")
				tab.want("width of a comparison", "document.documentElement.scrollWidth", fmt.Sprint(width))
				tab.screenshotOf(fmt.Sprintf("profiles-compared-%s-%d", theme, width), "#profiles")
			})
		}
	}

	t.Run("is not there without profiles", func(t *testing.T) {
		tab := browser.open(t, writePage(t, fixtureRun(t)))
		tab.unfold()
		tab.want("the section, and its place in the index", `document.querySelectorAll("#profiles, nav a[href='#profiles']").length`, "0")
	})
}

// A profile of 100,000 different stacks is merged once, and what is drawn of it is
// bounded by the pixels. How long that takes is printed, for the machine decides it.
func TestManyStacksInBrowser(t *testing.T) {
	browser := startBrowser(t)
	run := fixtureRun(t)
	run.Summary.Profiles = []insight.Profile{manyStacks("grpc", insight.ServerEnd, 100_000)}
	address := writePage(t, run)
	tab := openFlames(t, browser, address, chromedp.EmulateViewport(1400, 900))
	tab.want("in its own words", tab.all("Server", ".told"), "all · 100.0 % · 25.0 µs per call")
	since := ask(tab.tab, chromedp.Evaluate[[]float64](`[performance.getEntriesByType("navigation")[0].domInteractive,
		performance.getEntriesByName("flame graph drawn")[0].startTime, performance.getEntriesByName("stacks merged")[0].duration]`))
	t.Logf("after it was asked for: the page %.0f ms, its flame graph %.0f ms, with %.0f ms for merging", since[0], since[1], since[2])

	// In and out, the frames of the browser counted all the while.
	const zooms = `(async () => {
		const holder = document.querySelector("#profiles .flames"), canvas = holder.firstChild.firstChild;
		const press = key => holder.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
		const times = [], rectangles = [];
		let going = true;
		const frame = now => { times.push(now); rectangles.push(+canvas.dataset.rectangles); going && requestAnimationFrame(frame); };
		requestAnimationFrame(frame);
		const pause = () => new Promise(done => setTimeout(done, 250));
		for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "Enter", "ArrowDown", "ArrowDown", "Enter", "Escape", "Escape", "Enter", "Escape"]) {
			press(key);
			await pause();
		}
		going = false;
		const took = times.slice(1).map((time, i) => time - times[i]).sort((a, b) => a - b);
		const rows = Math.ceil(holder.clientHeight / 20) + 1;
		return [Math.max(...rectangles), rows * (4 * holder.clientWidth + 4), took.length, took[took.length >> 1], took[Math.floor(took.length * 0.99)], Math.max(...took)].join(" ");
	})()`
	answer := strings.Fields(ask(tab.tab, chromedp.Evaluate[string](zooms, chromedp.EvalAwaitPromise)))
	most, err := strconv.Atoi(answer[0])
	if err != nil {
		t.Fatal(err)
	}
	bound, err := strconv.Atoi(answer[1])
	if err != nil {
		t.Fatal(err)
	}
	if most == 0 || most > bound {
		t.Errorf("%d rectangles were drawn, want some, and at most %d for the pixels", most, bound)
	}
	tab.want("layouts, after zooming", tab.one("Server", ".flames")+".dataset.layouts", "1")
	t.Logf("while zooming: %s frames, median %s ms, 99th percentile %s ms, longest %s ms; at most %d rectangles", answer[2], answer[3], answer[4], answer[5], most)
	tab.screenshotOf("profiles-many", "#profiles")
}

// still makes the reader one of dark or light pages who asks for no animation.
func still(theme string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (none chromedp.Void, err error) {
		_, err = cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		})
		return none, err
	}
}

// A flameTab is a tab with the flame graphs of a run.
type flameTab struct{ *tab }

// openFlames opens a page and waits until its flame graphs are drawn.
func openFlames(t *testing.T, browser browser, address string, before ...chromedp.Action[chromedp.Void]) flameTab {
	t.Helper()
	tab := flameTab{browser.open(t, address, before...)}
	tab.unfold()
	tab.run(chromedp.WaitReady(chromedp.CSS("#profiles .flame:last-child canvas[data-rectangles]")))
	return tab
}

// one returns the script for the first element, of all ends or of one.
func (tab flameTab) one(end, selector string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("#profiles %s")].find(e => (e.closest(".flame")?.querySelector("h3").textContent ?? "").startsWith(%q))`, selector, end)
}

// all returns the script for the texts of all elements.
func (tab flameTab) all(end, selector string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("#profiles %s")].filter(e => (e.closest(".flame")?.querySelector("h3").textContent ?? "").startsWith(%q)).map(e => e.textContent.trim()).join("; ")`, strings.ReplaceAll(selector, ", ", ", #profiles "), end)
}

func (tab flameTab) sumOfGroups(end string) string {
	return tab.all(end, ".groups b") + `.split("; ").reduce((sum, text) => sum + parseFloat(text), 0).toFixed(1)`
}

func (tab flameTab) choose(option string) {
	tab.t.Helper()
	tab.click(fmt.Sprintf(`[...document.querySelectorAll("#profiles .choice label")].find(l => l.textContent == %q).firstChild`, option))
}

func (tab flameTab) search(query string) {
	tab.t.Helper()
	tab.enter(`document.querySelector("#profiles input[type=search]")`, query, "input")
}

func (tab flameTab) compareWith(cell string) {
	tab.t.Helper()
	options := ask(tab.tab, chromedp.Evaluate[[]string](`[...document.querySelectorAll("#profiles select option")].map(o => o.textContent)`))
	if !slices.Contains(options, cell) {
		tab.t.Fatalf("no %q to compare with: %q", cell, options)
	}
	value := ask(tab.tab, chromedp.Evaluate[string](fmt.Sprintf(`[...document.querySelectorAll("#profiles select option")].find(o => o.textContent == %q).value`, cell)))
	tab.enter(`document.querySelector("#profiles select")`, value, "change")
}

func (tab flameTab) enter(element, value, event string) {
	tab.t.Helper()
	tab.await(fmt.Sprintf(`{ const field = %s; field.value = %q; field.dispatchEvent(new Event(%q, {bubbles: true})); }`, element, value, event))
}

// press gives a key to the graph of an end.
func (tab flameTab) press(end, key string) {
	tab.t.Helper()
	tab.run(chromedp.Evaluate[chromedp.Void](tab.one(end, ".flames")+".focus()"), chromedp.KeyEvent(key))
	tab.await("")
}

func (tab flameTab) clickFrame(end string, across float64, row int) {
	tab.t.Helper()
	tab.point(end, "click", across, row)
}

func (tab flameTab) pointAt(end string, across float64, row int) {
	tab.t.Helper()
	tab.point(end, "mousemove", across, row)
}

// point is at so much of a graph's width, and in the middle of a row.
func (tab flameTab) point(end, event string, across float64, row int) {
	tab.t.Helper()
	tab.await(fmt.Sprintf(`{ const canvas = %s, box = canvas.getBoundingClientRect();
		canvas.dispatchEvent(new MouseEvent(%q, {bubbles: true, clientX: box.left + %g * box.width, clientY: box.top + 20 * %d + 10})); }`,
		tab.one(end, ".flames canvas"), event, across, row))
}

// await also waits for the frame in which the page answers.
func (tab flameTab) await(script string) {
	tab.t.Helper()
	tab.run(chromedp.Evaluate[chromedp.Void](
		script+"; new Promise(done => requestAnimationFrame(() => setTimeout(done, 30)))", chromedp.EvalAwaitPromise))
}
