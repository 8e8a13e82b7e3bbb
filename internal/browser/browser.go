package browser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/lab/worker"
)

// closeTime is how long Chromium may take to end by itself before it is killed.
const closeTime = 5 * time.Second

// Browser is a Chromium without windows. It is safe for concurrent use.
type Browser struct {
	cmd     *exec.Cmd
	said    *tail
	profile string
	link    *link
	ended   chan struct{}
	close   func() error
}

// Need returns a browser for t, which is closed when t ends. Under go test -short it skips t; where Chromium is not installed it does so by the rules
// of package servers, for which its kind is "chromium".
func Need(t testing.TB) *Browser {
	t.Helper()
	if testing.Short() {
		t.Skip("needs chromium, which -short does without")
	}
	b, err := Start(t.Context())
	servers.NeedInstalled(t, err, "chromium")
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if said := b.said.String(); t.Failed() && said != "" {
			t.Logf("chromium said last:\n%s", said)
		}
	})
	return b
}

// Start starts a Chromium with a profile of its own and returns when it answers. ctx bounds the start alone. If it is not installed the error is a
// [*servers.NotInstalled].
func Start(ctx context.Context) (*Browser, error) {
	const install = "apt-get install chromium (Debian)"
	program, err := servers.Find("chromium", install)
	if err != nil {
		return nil, err
	}
	profile, err := os.MkdirTemp("", "lockport-chromium-")
	if err != nil {
		return nil, err
	}
	b := &Browser{profile: profile, said: &tail{}, ended: make(chan struct{})}
	b.close = sync.OnceValue(b.end)
	if err := b.start(program); err != nil {
		return nil, errors.Join(err, os.RemoveAll(profile))
	}
	if err := b.link.call(ctx, "", "Browser.getVersion", nil, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("chromium does not answer: %w\n%s", err, b.said), b.Close())
	}
	return b, nil
}

func (b *Browser) start(program string) error {
	args := []string{
		"--headless", "--remote-debugging-pipe", "--user-data-dir=" + b.profile, "--disable-gpu", "--no-first-run", "--no-default-browser-check",
		// Nothing that it does by itself is a request of the page.
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic", "--disable-extensions", "--disable-default-apps",
		"--log-level=3", "--hide-scrollbars", "--mute-audio", "--password-store=basic", "--use-mock-keychain",
		"--disable-dev-shm-usage", // containers often have little of it
	}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox") // which refuses to work for root
	}
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		return err
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		return errors.Join(err, theirIn.Close(), ourOut.Close())
	}
	b.cmd = exec.Command(program, args...)
	b.cmd.ExtraFiles = []*os.File{theirIn, theirOut} // descriptors 3 and 4
	b.cmd.Stderr = b.said
	reaped, err := worker.Start(b.cmd)
	err = errors.Join(err, theirIn.Close(), theirOut.Close())
	if err != nil {
		return errors.Join(err, ourIn.Close(), ourOut.Close())
	}
	go func() {
		_ = b.cmd.Wait() // how it ended says nothing: it is asked to, or killed
		reaped()
		close(b.ended)
	}()
	b.link = newLink(ourIn, ourOut)
	return nil
}

// Close ends the browser and removes its profile. It may be called again.
func (b *Browser) Close() error { return b.close() }

func (b *Browser) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_ = b.link.call(ctx, "", "Browser.close", nil, nil) // it may end before it answers
	select {
	case <-b.ended:
	case <-ctx.Done():
		_ = b.cmd.Process.Kill()
		<-b.ended
	}
	b.link.close()
	return removeAll(b.profile)
}

// removeAll removes a folder into which processes that are ending may write still.
func removeAll(folder string) error {
	var err error
	for deadline := time.Now().Add(closeTime); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = os.RemoveAll(folder); err == nil {
			return nil
		}
	}
	return err
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements [io.Writer].
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const most = 4096
	t.text = append(t.text, p...)
	if over := len(t.text) - most; over > 0 {
		t.text = t.text[over:]
	}
	return len(p), nil
}

// String is that end.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}
