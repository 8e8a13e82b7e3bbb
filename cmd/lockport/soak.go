package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/lockport/lockport/conformance"
)

// soak is "lockport conform --soak".
func soak(ctx context.Context, c *console, lines io.Writer, o conformOptions) error {
	report := conformance.Soak(ctx, soakConfig(o.url), o.soak)
	if report.Error != "" {
		return failf(exitUnavailable, "%s", report.Error)
	}
	fmt.Fprintln(lines, report)
	return handIn(ctx, c, o, report)
}

// soakConfig is the soak's for the server of a URL, without a proxy before it, which would only slow it down.
func soakConfig(rawURL string) conformance.Config {
	rawURL = withSessionTTL(rawURL)
	return conformance.Config{Open: openTarget, Target: rawURL, MinTTL: urlTTL(rawURL), Local: strings.HasPrefix(rawURL, "memory:")}
}
