package fencetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
)

// Errors checks the errors of the package of this name.
type Errors string

// OneLine requires a one-line error that names the package.
func (e Errors) OneLine(t testing.TB, err error) {
	t.Helper()
	says(t, err, string(e)+": ")
	want(t, !strings.Contains(err.Error(), "\n"), "want one line: %v", err)
}

// Stale requires a one-line error that refuses token because of seen.
func (e Errors) Stale(t testing.TB, err error, token, seen lockport.Token) {
	t.Helper()
	e.OneLine(t, err)
	is(t, err, fence.ErrStale)
	var s *fence.StaleError
	want(t, errors.As(err, &s) && s.Token == token && s.Seen == seen, "want a refusal of %d because of %d, got: %v", token, seen, err)
}

func must(t testing.TB, err error) {
	t.Helper()
	want(t, err == nil, "%v", err)
}

func want(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, args...)
	}
}

// is requires err to match all of targets.
func is(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		want(t, errors.Is(err, target), "got %v, want an error that matches %v", err, target)
	}
}

func says(t testing.TB, err error, text string) {
	t.Helper()
	want(t, err != nil && strings.Contains(err.Error(), text), "want an error that contains %q, got: %v", text, err)
}
