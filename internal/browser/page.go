package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
)

// Page is a tab. What it shows changes only as its methods say. It is not safe for concurrent use.
type Page struct {
	link            *link
	target, session string

	mu       sync.Mutex
	requests []string
	messages []string
	loaded   chan struct{}
}

// Look is how a page is looked at.
type Look struct {
	// Width and Height are the window's, in CSS pixels; 0 is 1280 and 800. Scale is how many pixels of the screen each of them has; 0 is 1.
	Width, Height int
	Scale         float64
	// Dark asks for prefers-color-scheme: dark; otherwise it is light.
	Dark bool
	// Still asks for prefers-reduced-motion: reduce.
	Still bool
	// Print shows the page as it is printed.
	Print bool
	// NoScript lets the page run no script.
	NoScript bool
}

// NewPage opens an empty tab.
func (b *Browser) NewPage(ctx context.Context) (*Page, error) {
	p := &Page{link: b.link}
	var created struct{ TargetID string }
	if err := b.link.call(ctx, "", "Target.createTarget", object{"url": "about:blank"}, &created); err != nil {
		return nil, err
	}
	var attached struct{ SessionID string }
	if err := b.link.call(ctx, "", "Target.attachToTarget", object{"targetId": created.TargetID, "flatten": true}, &attached); err != nil {
		return nil, err
	}
	p.target, p.session = created.TargetID, attached.SessionID
	b.link.listen(p.session, p.event)
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		if err := p.call(ctx, domain+".enable", nil, nil); err != nil {
			return nil, err
		}
	}
	return p, nil
}

type object = map[string]any

func (p *Page) call(ctx context.Context, method string, params, result any) error {
	return p.link.call(ctx, p.session, method, params, result)
}

// event notes what the page asks for and says.
func (p *Page) event(method string, params json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch method {
	case "Network.requestWillBeSent":
		var e struct{ Request struct{ URL string } }
		_ = json.Unmarshal(params, &e)
		p.requests = append(p.requests, e.Request.URL)
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
		p.messages = append(p.messages, method+" "+string(params))
	case "Page.loadEventFired":
		if p.loaded != nil {
			close(p.loaded)
			p.loaded = nil
		}
	}
}

// Look sets how the page is looked at, from the next [Page.Open] on and, but for NoScript, at once.
func (p *Page) Look(ctx context.Context, l Look) error {
	if l.Width == 0 {
		l.Width, l.Height = 1280, 800
	}
	if l.Scale == 0 {
		l.Scale = 1
	}
	scheme, motion, media := "light", "no-preference", "screen"
	if l.Dark {
		scheme = "dark"
	}
	if l.Still {
		motion = "reduce"
	}
	if l.Print {
		media = "print"
	}
	if err := p.call(ctx, "Emulation.setDeviceMetricsOverride",
		object{"width": l.Width, "height": l.Height, "deviceScaleFactor": l.Scale, "mobile": l.Width < 600}, nil); err != nil {
		return err
	}
	if err := p.call(ctx, "Emulation.setEmulatedMedia", object{"media": media, "features": []object{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion}}}, nil); err != nil {
		return err
	}
	return p.call(ctx, "Emulation.setScriptExecutionDisabled", object{"value": l.NoScript}, nil)
}

// Open shows a file, with a fragment ("#matrix") or without one, and returns when all of it is loaded and painted. What earlier pages asked for and said is
// forgotten.
func (p *Page) Open(ctx context.Context, file, fragment string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	address := url.URL{Scheme: "file", Path: filepath.ToSlash(file), Fragment: strings.TrimPrefix(fragment, "#")}
	// The same file with another fragment would not be loaded anew.
	if err := p.navigate(ctx, "about:blank"); err != nil {
		return err
	}
	p.mu.Lock()
	p.requests, p.messages = nil, nil
	p.mu.Unlock()
	if err := p.navigate(ctx, address.String()); err != nil {
		return err
	}
	return p.Eval(ctx, "document.fonts.ready.then(() => true)", nil)
}

func (p *Page) navigate(ctx context.Context, address string) error {
	loaded := make(chan struct{})
	p.mu.Lock()
	p.loaded = loaded
	p.mu.Unlock()
	var answer struct{ ErrorText string }
	if err := p.call(ctx, "Page.navigate", object{"url": address}, &answer); err != nil {
		return err
	}
	if answer.ErrorText != "" {
		return fmt.Errorf("%s: %s", address, answer.ErrorText)
	}
	select {
	case <-loaded:
		return nil
	case <-p.link.gone:
		return errGone
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Eval runs JavaScript in the page, also where that may run none itself, waits for it if it is a promise, and decodes its value into result, which may
// be nil. What it throws is the error.
func (p *Page) Eval(ctx context.Context, expression string, result any) error {
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if err := p.call(ctx, "Runtime.evaluate", object{"expression": expression, "returnByValue": true, "awaitPromise": true}, &answer); err != nil {
		return err
	}
	if e := answer.ExceptionDetails; e != nil {
		return fmt.Errorf("%s %s", e.Text, e.Exception.Description)
	}
	if result == nil || len(answer.Result.Value) == 0 {
		return nil
	}
	return json.Unmarshal(answer.Result.Value, result)
}

// Screenshot is a PNG of the window, or, if whole is set, of all of the page.
func (p *Page) Screenshot(ctx context.Context, whole bool) ([]byte, error) {
	var answer struct{ Data []byte }
	err := p.call(ctx, "Page.captureScreenshot", object{"format": "png", "captureBeyondViewport": whole}, &answer)
	return answer.Data, err
}

// Requests are the addresses of all that was asked for since Open, the file itself among them.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

// Messages are what the page wrote to its console since Open, its exceptions, and what the browser had to say of it.
func (p *Page) Messages() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.messages...)
}

// Close closes the tab.
func (p *Page) Close(ctx context.Context) error {
	p.link.listen(p.session, nil)
	return p.link.call(ctx, "", "Target.closeTarget", object{"targetId": p.target}, nil)
}
