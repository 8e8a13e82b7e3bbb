package fencetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// is requires err to match all of targets, and to be one line that begins with pkg somewhere.
func is(t testing.TB, pkg string, err error, targets ...error) {
	t.Helper()
	OneLine(t, pkg, err)
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Fatalf("%v: want an error that matches %v", err, target)
		}
	}
}

// OneLine requires an error of one line that names the package.
func OneLine(t testing.TB, pkg string, err error) {
	t.Helper()
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), pkg+": ") {
		t.Fatalf("want an error of one line with %q, got: %v", pkg+": ", err)
	}
}

// Stale requires that err refuses token because of seen.
func Stale(t testing.TB, pkg string, err error, token, seen lockport.Token) {
	t.Helper()
	is(t, pkg, err, fence.ErrStale)
	var s *fence.StaleError
	if !errors.As(err, &s) || s.Token != token || s.Seen != seen {
		t.Fatalf("want a refusal of %d because of %d, got: %v", token, seen, err)
	}
}
