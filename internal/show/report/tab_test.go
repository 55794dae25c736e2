package report

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is one page of the browser. What it complains of, or asks of any network,
// fails the test when it ends.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	troubles []string
}

// browser is a process that ends with the test that started it.
type browser struct {
	ctx  context.Context
	site string // the address of a site whose pages may ask it for files; empty for pages that ask nobody
}

func startBrowser(t *testing.T) browser {
	t.Helper()
	if testing.Short() {
		t.Skip("opens a browser, which takes seconds: left out of the short tests")
	}
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("no Chromium on PATH, so the page cannot be opened: apt-get install chromium")
	}
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program),
		chromedp.NoSandbox, // it refuses to run as root otherwise
		chromedp.DisableGPU,
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
	)...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return browser{ctx: ctx}
}

// open shows the address in a tab of its own, once it has done what comes before.
func (b browser) open(t *testing.T, address string, before ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // with a context that outlives the first step
		t.Fatal(err)
	}
	opened := &tab{t: t, ctx: ctx}
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			opened.trouble("console: %s %v", e.Type, e.Args)
		case *runtime.EventExceptionThrown:
			description := ""
			if e.ExceptionDetails.Exception != nil {
				description = e.ExceptionDetails.Exception.Description
			}
			opened.trouble("exception: %s %s", e.ExceptionDetails.Text, description)
		case *log.EventEntryAdded:
			opened.trouble("log: %s %s", e.Entry.Level, e.Entry.Text)
		case *network.EventRequestWillBeSent:
			file, _, _ := strings.Cut(address, "#")
			ofSite := b.site != "" && strings.HasPrefix(e.Request.URL, b.site)
			if e.Request.URL != file && !ofSite && !strings.HasPrefix(e.Request.URL, "data:") {
				opened.trouble("request: %s", e.Request.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		opened.mu.Lock()
		defer opened.mu.Unlock()
		for _, trouble := range opened.troubles {
			t.Error(trouble)
		}
	})
	opened.run(chromedp.EmulateViewport(1280, 900))
	opened.run(before...)
	opened.run(chromedp.Navigate(address), chromedp.WaitReady(chromedp.CSS("h1")))
	return opened
}

// prefer makes the reader one of dark or light pages.
func prefer(theme string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (none chromedp.Void, err error) {
		_, err = cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
		})
		return none, err
	}
}

func withoutScripts(ctx context.Context, target *chromedp.Target) (none chromedp.Void, err error) {
	_, err = cdp.Call(ctx, target, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	return none, err
}

func (tab *tab) trouble(format string, arguments ...any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	tab.troubles = append(tab.troubles, fmt.Sprintf(format, arguments...))
}

// stepTimeout ends a single step that hangs. There is no deadline over several steps,
// since a busy machine may need any time for all of them.
const stepTimeout = 2 * time.Minute

func (tab *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	for _, action := range actions {
		ask(tab, action)
	}
}

// ask runs an action, and returns its answer.
func ask[T any](tab *tab, action chromedp.Action[T]) T {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, stepTimeout)
	defer cancel()
	answer, err := chromedp.Run(ctx, action)
	if err != nil {
		tab.t.Fatal(err)
	}
	return answer
}

// click also waits for the frame in which the page answers.
func (tab *tab) click(element string) {
	tab.t.Helper()
	tab.run(chromedp.Evaluate[chromedp.Void](
		"("+element+").click(); new Promise(done => requestAnimationFrame(() => setTimeout(done, 30)))",
		chromedp.EvalAwaitPromise))
}

// choose takes an option of the page's filter.
func (tab *tab) choose(label, option string) {
	tab.t.Helper()
	tab.run(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(async () => {
		const select = [...document.querySelectorAll(".filters > label")].find((label) => label.textContent.startsWith(%q)).querySelector("select");
		select.value = [...select.options].find((option) => option.textContent === %q).value;
		select.dispatchEvent(new Event("change", { bubbles: true }));
		await new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)));
	})()`, label, option), chromedp.EvalAwaitPromise))
}

// stack returns the checkbox of a stack in the page's filter.
func stackBox(name string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(".filters .menu label")].find(l => l.textContent.trim() === %q).querySelector("input")`, name)
}

// unfold opens all sections, and waits for the frame in which their charts know their width.
func (tab *tab) unfold() {
	tab.t.Helper()
	tab.click(`(document.querySelectorAll(".fold").forEach(fold => fold.open = true), document.body)`)
}

func (tab *tab) want(what, expression, want string) {
	tab.t.Helper()
	if got := ask(tab, chromedp.Evaluate[string]("String("+expression+")")); got != want {
		tab.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (tab *tab) screenshot(name string) {
	tab.t.Helper()
	if os.Getenv("WIRELAB_SCREENSHOTS") != "" {
		keep(tab.t, name+".png", ask(tab, chromedp.CaptureScreenshot()))
	}
}

func (tab *tab) screenshotOf(name, selector string) {
	tab.t.Helper()
	if os.Getenv("WIRELAB_SCREENSHOTS") != "" {
		keep(tab.t, name+".png", ask(tab, chromedp.Screenshot(chromedp.CSS(selector))))
	}
}

// keep leaves a picture for somebody to look at, where that was asked for.
func keep(t *testing.T, name string, content []byte) {
	t.Helper()
	folder := os.Getenv("WIRELAB_SCREENSHOTS")
	if folder == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
		t.Error(err)
	}
}
