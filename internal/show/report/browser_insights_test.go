package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis/insight"
)

// TestWhyInBrowser holds what the page says of a difference against what package analysis
// does, which the terminal shows.
func TestWhyInBrowser(t *testing.T) {
	browser := startBrowser(t)
	run := fixtureInsights(t, insides...)
	address := writePage(t, run)
	find := func(variant string, clients int) *insight.Insight {
		at := slices.IndexFunc(run.Summary.Insights, func(i insight.Insight) bool { return i.Variant == variant && i.Clients == clients })
		return &run.Summary.Insights[at]
	}

	t.Run("explains the usual pair", func(t *testing.T) {
		tab := whyTab{browser.open(t, address)}
		tab.unfold()
		tab.want("in the index", `document.querySelectorAll('nav a[href="#why"]').length`, "1")
		tab.want("before the flame graphs", `Boolean(document.querySelector("#why").compareDocumentPosition(document.querySelector("#profiles")) & Node.DOCUMENT_POSITION_FOLLOWING)`, "true")
		tab.wantExplained(find("grpc", 1), find("tcp", 1))
	})

	t.Run("explains what is chosen", func(t *testing.T) {
		tab := whyTab{browser.open(t, address)}
		tab.unfold()
		tab.choose("B", "rest")
		tab.wantExplained(find("rest", 1), find("tcp", 1))
		tab.choose("A", "grpc")
		tab.wantExplained(find("rest", 1), find("grpc", 1))
		tab.choose("B", "grpc") // the other way round
		tab.wantExplained(find("grpc", 1), find("rest", 1))
		tab.choose("A", "none: B alone")
		tab.wantExplained(find("grpc", 1), nil)
		tab.choose("B", "tcp")
		tab.wantExplained(find("tcp", 1), nil)
		tab.tab.choose("Clients", "10")
		tab.want("without stages", tab.texts(`[data-table="stages"]`), "")
		tab.want("and why", tab.texts(".note")+`.includes("The stages of calls with 10 clients were not traced.")`, "true")
		tab.choose("B", "tcp")
		tab.choose("A", "rest")
		tab.wantExplained(find("tcp", 10), find("rest", 10))
		tab.tab.choose("Clients", "all")
		tab.tab.choose("Size", "1 KiB")
		tab.want("the only one there", tab.texts(".advice li"), strings.Join(advice.Explain(insight.Explain(&run.Summary.Insights[len(run.Summary.Insights)-1], nil)), "; "))
	})

	t.Run("draws the life of a call", func(t *testing.T) {
		tab := whyTab{browser.open(t, address)}
		tab.unfold()
		tcp := find("tcp", 1).Life
		tab.want("bars", tab.texts(".life .bar-name"), "tcp; rest; grpc")
		tab.want("stages of the first, in their order", `[...document.querySelectorAll("#why .lanes")][0].querySelectorAll(".stage").length`, "13")
		tab.want("each begins where the one before it ends",
			`(() => { const stages = [...document.querySelectorAll("#why .lanes")][2].querySelectorAll(".stage");
				return [...stages].every((s, i) => i == 0 || Math.abs(parseFloat(s.style.left) - parseFloat(stages[i-1].style.left) - parseFloat(stages[i-1].style.width)) < 1e-3); })()`, "true")
		tab.want("both ends apart", `(() => { const at = of => document.querySelector("#why .lanes ." + of).getBoundingClientRect(); return at("client").bottom <= at("server").top; })()`, "true")
		tab.want("calls, and what looking on cost", tab.texts(".life figcaption .note")+`.includes("1,200 calls of each, and 12 calls without stages. A traced call took 1.05× as long")`, "true")

		figures := tab.rows(".life table")
		sum := 0.0
		for i, stage := range tcp.Stages {
			tab.wantNumber(stage.Name, figures[i][1], stage.Mean)
			sum += parsed(t, figures[i][1])
		}
		together, rest, bare := figures[len(tcp.Stages)], figures[len(tcp.Stages)+1], figures[len(tcp.Stages)+2]
		tab.wantNumber("their sum", together[1], tcp.Mean)
		tab.wantNear("their sum on the page", parsed(t, together[1]), sum, len(tcp.Stages))
		tab.wantNumber("without the probe", bare[1], *tcp.Bare)
		tab.wantNear("the rest", parsed(t, rest[1]), parsed(t, bare[1])-parsed(t, together[1]), 2)
	})

	t.Run("draws slow calls beside median calls", func(t *testing.T) {
		tab := whyTab{browser.open(t, address)}
		tab.unfold()
		of, against := find("grpc", 1).Tail, find("tcp", 1).Tail
		tab.want("bars", tab.texts(".tail .bar-name"), "grpc: median; grpc: slowest 1 %; tcp: median; tcp: slowest 1 %")
		tab.want("one scale", `(() => { const width = i => [...document.querySelectorAll("#why .tail .lanes")[i].querySelectorAll(".stage")].reduce((sum, s) => sum + parseFloat(s.style.width), 0);
			return Math.abs(width(1) / width(0) - `+fmt.Sprint(of.Slow/of.Median)+`) < 0.01 && Math.abs(width(1) / width(3) - `+fmt.Sprint(of.Slow/against.Slow)+`) < 0.01; })()`, "true")
		tab.want("the share in the bar", tab.texts(".tail .bar:nth-child(2) .waking.server span"), "wake server 100 %")
		tab.want("the shares in words", tab.texts(".tail-shares li"), "wake server 100 %; wake server 100 %")
		tab.want("the sentence above", tab.texts(".advice li:nth-child(3)"), "The slowest 1 % of calls over grpc with 1 client (12 of 1,200) take 212 µs, 2.16 times the median: all of the difference is waking threads on the server; every 100th call.")
		figures := tab.rows(`[data-table="tail"]`)
		if stages := len(of.Stages); len(figures) != 2*(stages+1) {
			t.Fatalf("%d rows of figures, want two tables of %d stages and their sum", len(figures), stages)
		}
		for i, stage := range of.Stages {
			tab.wantNear(stage.Name+" of median calls", parsed(t, figures[i][1]), stage.Median, 10)
			tab.wantNear(stage.Name+" of slow calls", parsed(t, figures[i][2]), stage.Slow, 10)
		}
		tab.wantNear("the difference", parsed(t, figures[len(of.Stages)][3]), of.Slow-of.Median, 10)
		tab.want("no flames of tcp, whose call stacks are unknown", tab.texts(".flame h4"), "grpc: a slow call against a median call")
		tab.choose("A", "none: B alone")
		tab.want("bars of one", tab.texts(".tail .bar-name"), "grpc: median; grpc: slowest 1 %")
		tab.tab.choose("Clients", "10")
		tab.want("without stages", `document.querySelectorAll("#why .tail").length`, "0")
	})

	t.Run("draws flames of a slow call against a median call", func(t *testing.T) {
		tab := whyTab{browser.open(t, address, still("light"))}
		tab.unfold()
		tab.run(chromedp.WaitReady(chromedp.CSS("#why .flame canvas[data-rectangles]")))
		of := find("grpc", 1).Tail
		tab.want("what they take", tab.texts(".flame figcaption .note"), fmt.Sprintf("A slow call takes %.0f µs, a median call %.1f µs: means of 12 and 240 calls.", of.Slow, of.Median))
		tab.want("the stage that grows", tab.texts(".flame .groups li:first-child"), "wake server 56.6 % +114 µs, 20.0×")
		flames := flameTab(tab)
		press := func(key string) {
			tab.run(chromedp.Evaluate[chromedp.Void](`document.querySelector("#why .flames").focus()`), chromedp.KeyEvent(key))
			flames.await("")
		}
		for _, want := range []string{
			"all · 100.0 % · 212 µs per call · against a median call +114 µs, 2.16×",
			"wake server · 56.6 % · 120 µs per call · against a median call +114 µs, 20.0×",
			"example.com/app.call · 56.6 % · 120 µs per call · against a median call +114 µs, 20.0×",
			"example.com/app.stalled · 53.8 % · 114 µs per call · against a median call +114 µs, new",
		} {
			press(kb.ArrowDown)
			tab.want("downwards", tab.texts(".flame .told"), want)
		}
		tab.want("not in the section of call stacks", `[...document.querySelectorAll("#profiles select option, #profiles .choice label")].some(e => /slow|median/i.test(e.textContent))`, "false")
		tab.screenshotOf("why-flames", "#why .tail-flames")
		tab.choose("B", "rest")
		tab.want("and no empty graph without call stacks", `document.querySelectorAll("#why .tail-flames").length`, "0")
	})

	t.Run("draws what the processes tell without the kernel", func(t *testing.T) {
		tab := whyTab{browser.open(t, address)}
		tab.unfold()
		tab.tab.choose("Clients", "all")
		tab.tab.choose("Size", "1 KiB")
		tab.want("the stages", tab.texts(".lanes .stage span"), "request; handler; answer")
		tab.want("two stages at both ends", `document.querySelectorAll("#why .lanes .mixed:not(.client, .server)").length`, "2")
		tab.want("in words", tab.texts(".life figcaption .note")+`.endsWith("2 calls. The cost of tracing is unknown.")`, "true")
		tab.want("the whole, with nothing left", tab.texts(`[data-table="stages"] tbody th, #why [data-table="stages"] tbody .number`), "request; 35.00; handler; 1.00; answer; 30.00; = A call; 66.00")
		tab.want("too few calls for a tail", tab.texts(".note")+`.includes("The slow calls are not explained. tcp: only 2 calls have known stages: measure at least 200 (-n, --repeat).")`, "true")
	})

	t.Run("says how it was seen", func(t *testing.T) {
		tab := whyTab{browser.open(t, address)}
		tab.unfold()
		tab.want("what is missing", tab.texts(".passes .missing"), "Not measured: cycles: this machine <has> no counter for it.")
		tab.want("what the probe cost, of three with one client and with ten", tab.texts(".passes tbody tr:first-child td.number"), strings.TrimSuffix(strings.Repeat("1×; ", 6), "; "))
	})

	t.Run("leads to the call stacks", func(t *testing.T) {
		tab := whyTab{openFlames(t, browser, address, still("light")).tab}
		tab.click(`[...document.querySelectorAll("#why .stack-links a")].find(a => a.textContent == "grpc against tcp")`)
		flames := flameTab(tab)
		tab.run(chromedp.WaitReady(chromedp.CSS("#profiles .steps")))
		tab.want("both of them", flames.all("Server", ".flame h3"), "Server: CPU time of B against A")
		tab.want("which is which", `document.querySelectorAll("#profiles > .note")[1].textContent.startsWith("Widths are from B, matrix, grpc, echo, 64 B, 1 client; ")`, "true")
		tab.click(`[...document.querySelectorAll("#why .stack-links a")].find(a => a.textContent == "grpc")`)
		tab.want("one alone", flames.all("Server", ".flame h3"), "Server: CPU time of matrix, grpc, echo, 64 B, 1 client")
	})

	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{360, 700, 1400} {
			t.Run(fmt.Sprintf("fits %d pixels, %s", width, theme), func(t *testing.T) {
				tab := browser.open(t, address, chromedp.EmulateViewport(width, 900), still(theme))
				tab.want("width of the page", "document.documentElement.scrollWidth", fmt.Sprint(width))
				tab.screenshotOf(fmt.Sprintf("why-%s-%d", theme, width), "#why")
			})
		}
	}

	t.Run("explains the only cell there is", func(t *testing.T) {
		tab := whyTab{browser.open(t, writePage(t, fixtureInsights(t, insides[0])))}
		tab.unfold()
		tab.wantExplained(find("tcp", 1), nil)
		tab.want("no choice of a pair", tab.texts(".pair-choices legend"), "")
	})

	t.Run("is not there without insights", func(t *testing.T) {
		tab := browser.open(t, writePage(t, fixtureRun(t)))
		tab.want("the section, and its place in the index", `document.querySelectorAll("#why, nav a[href='#why']").length`, "0")
	})
}

// A whyTab is a tab that shows the explanation of a run.
type whyTab struct{ *tab }

// texts returns the script for the texts of all elements of the section.
func (tab whyTab) texts(selector string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("#why " + %q)].map(e => e.textContent.trim()).join("; ")`, selector)
}

func (tab whyTab) rows(table string) [][]string {
	tab.t.Helper()
	return ask(tab.tab, chromedp.Evaluate[[][]string](fmt.Sprintf(`[...document.querySelectorAll("#why " + %q + " tbody tr")].map(tr => [...tr.children].map(e => e.textContent))`, table)))
}

func (tab whyTab) choose(label, option string) {
	tab.t.Helper()
	tab.click(fmt.Sprintf(`[...document.querySelectorAll("#why fieldset")].find(f => f.querySelector("legend").textContent == %q)
		.querySelectorAll("label").values().find(l => l.textContent == %q).firstChild`, label, option))
}

// wantExplained compares the words, the figures, their order and the marks of figures that may be
// chance with those of package analysis, and checks that the figures add up.
func (tab whyTab) wantExplained(of, against *insight.Insight) {
	tab.t.Helper()
	e := insight.Explain(of, against)
	tab.want("the words", tab.texts(".advice li"), strings.Join(advice.Explain(e), "; "))
	for _, stages := range e.Stages {
		if against == nil {
			place := func(c insight.Change) int {
				return slices.IndexFunc(of.Life.Stages, func(s insight.Stage) bool { return s.Name == c.Name })
			}
			slices.SortStableFunc(stages.Parts, func(a, b insight.Change) int { return cmp.Compare(place(a), place(b)) })
		}
		tab.wantParts(`[data-table="stages"]`, stages, against != nil)
	}
	for _, cpu := range e.CPU {
		tab.wantParts(fmt.Sprintf(`[data-table="cpu-%s"]`, cpu.End), cpu, against != nil)
	}
	for _, counted := range []struct {
		table string
		all   []insight.Change
	}{{"syscalls", e.Syscalls}, {"counters", e.Counters}} {
		for _, end := range []string{insight.ClientEnd, insight.ServerEnd} {
			of := slices.DeleteFunc(slices.Clone(counted.all), func(c insight.Change) bool { return c.End != end || max(c.A, c.B) < 0.005 })
			rows := tab.rows(fmt.Sprintf(`[data-table="%s-%s"]`, counted.table, end))
			if len(rows) != len(of) {
				tab.t.Errorf("%s of the %s: %q, want %v", counted.table, end, rows, of)
				continue
			}
			for i, change := range of {
				tab.wantChange(rows[i], change, against != nil, 0.005)
			}
		}
	}
}

func (tab whyTab) wantParts(table string, want insight.ExplainedFigure, pair bool) {
	tab.t.Helper()
	rows := tab.rows(table)
	parts := len(want.Parts)
	if want.Rest != 0 {
		parts++
	}
	if len(rows) != parts+1 {
		tab.t.Errorf("%s has %d rows, want %d parts and the whole: %q", table, len(rows), parts, rows)
		return
	}
	column, sum := 1, 0.0
	if pair {
		column = 3
	}
	for i, row := range rows[:parts] {
		sum += parsed(tab.t, row[column])
		if i == len(want.Parts) {
			tab.wantNumber("the rest", row[column], want.Rest)
			continue
		}
		tab.wantChange(row, want.Parts[i], pair, 0)
		if chance := strings.Contains(row[len(row)-1], "may be chance"); pair && chance == want.Parts[i].IsClear() {
			tab.t.Errorf("%s of %s: may be chance: %v", want.Parts[i].Name, table, chance)
		}
	}
	whole := rows[parts][column]
	tab.wantNumber("the whole", whole, want.Whole.Difference())
	tab.wantNear("what the parts on the page add up to", sum, parsed(tab.t, whole), parts)
}

// wantChange allows for figures with so few digits, as a share of them.
func (tab whyTab) wantChange(row []string, want insight.Change, pair bool, digits float64) {
	tab.t.Helper()
	if row[0] != want.Name {
		tab.t.Errorf("%q stands where %s should", row, want.Name)
		return
	}
	figures := []float64{want.B}
	if pair {
		figures = []float64{want.A, want.B, want.Difference()}
	}
	for i, figure := range figures {
		if got := parsed(tab.t, row[i+1]); math.Abs(got-figure) > max(halfDigit, digits*math.Abs(figure)) {
			tab.t.Errorf("%s: %q, want %v", want.Name, row, figure)
		}
	}
}

// halfDigit is the rounding error of a figure with two decimals.
const halfDigit = 0.005 + 1e-9

func (tab whyTab) wantNumber(what, got string, want float64) {
	tab.t.Helper()
	tab.wantNear(what, parsed(tab.t, got), want, 1)
}

// wantNear allows for the given number of roundings.
func (tab whyTab) wantNear(what string, got, want float64, roundings int) {
	tab.t.Helper()
	if math.Abs(got-want) > halfDigit*float64(roundings+1) {
		tab.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func parsed(t *testing.T, text string) float64 {
	t.Helper()
	number, err := strconv.ParseFloat(strings.NewReplacer("−", "-", ",", "").Replace(text), 64)
	if err != nil {
		t.Fatal(err)
	}
	return number
}
