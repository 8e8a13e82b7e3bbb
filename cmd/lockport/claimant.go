package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lockport/lockport/driver"
)

// claimantOf reads the owner id of a client of lockport.
func claimantOf(st driver.Status) (driver.Claimant, bool) {
	if st.Foreign {
		return driver.Claimant{}, false
	}
	return driver.OwnerClaimant(st.Owner)
}

// who says in a few words who has a lock.
func who(st driver.Status) string {
	switch c, ok := claimantOf(st); {
	case !st.Held:
		return "nobody"
	case ok:
		return fmt.Sprintf("%s, pid %d, %s", legible(c.Host), c.PID, legible(c.Label))
	case st.Foreign && st.Owner == "":
		return "foreign, unnamed"
	case st.Foreign:
		return "foreign: " + legible(st.Owner)
	}
	return legible(st.Owner)
}

// plain is a name as it is, where that shows what it is and where it ends; else in quotes.
func plain(name string) string {
	odd := func(r rune) bool { return r == ' ' || r == '"' || r == '\\' || !strconv.IsPrint(r) }
	if name == "" || strings.ContainsFunc(name, odd) {
		return strconv.Quote(name)
	}
	return name
}

// legible is what a client wrote, in quotes where it would play with the terminal, and not much of it.
func legible(s string) string {
	const limit = 100
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) || !utf8.ValidString(s) {
		s = strconv.Quote(s)
	}
	if r := []rune(s); len(r) > limit {
		s = string(r[:limit]) + "…"
	}
	return s
}
