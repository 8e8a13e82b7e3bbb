package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/faultproxy"
)

type conformOptions struct {
	url   string
	json  string
	match *regexp.Regexp
	short bool
	list  bool
	soak  conformance.SoakOptions // For is 0: run the cases
}

func parseConform(args []string) (conformOptions, error) {
	var o conformOptions
	options := newOptions("conform")
	server := options.server()
	options.StringVar(&o.json, "json", o.json, "")
	options.BoolVar(&o.short, "short", false, "")
	options.BoolVar(&o.list, "list", false, "")
	options.duration(&o.soak.For, time.Second, "soak", "")
	options.count(&o.soak.Processes, "processes")
	options.count(&o.soak.Goroutines, "goroutines")
	options.Func("run", "", func(s string) (err error) { o.match, err = regexp.Compile(s); return err })
	err := options.parseAlone(args)
	switch {
	case err != nil:
		return o, err
	case o.soak.For > 0 && (o.short || o.list || o.match != nil):
		return o, usagef("--soak runs no cases: it excludes --run, --short and --list")
	case o.list && o.json != "":
		return o, usagef("--list writes no report: it excludes --json")
	case o.soak.For == 0 && o.soak.Processes+o.soak.Goroutines > 0:
		return o, usagef("--processes and --goroutines need --soak TIME")
	}
	o.url, err = server.url()
	return o, err
}

func conformVerb(ctx context.Context, c *console, args []string) error {
	o, err := parseConform(args)
	if err != nil {
		return err
	}
	switch {
	case len(o.cases()) == 0:
		return usagef("no case matches --run %q", o.match)
	case o.list:
		return listCases(c.out, o)
	}
	ctx, stop := interruptible(ctx)
	defer stop(nil)
	// An unreachable server is one line, not a hundred failures.
	client, err := openServer(ctx, o.url)
	if err != nil {
		return cmp.Or(interruption(ctx), err)
	}
	_ = client.Close()
	out := bufio.NewWriter(c.out)     // its last Flush returns the first error
	lines, results := out, io.Discard // for people, for programs
	switch o.json {
	case "":
	case "-":
		lines, results = bufio.NewWriter(c.err), out
	default:
		f, err := os.Create(o.json) // before the suite spends minutes
		if err != nil {
			return failf(exitFailed, "the report cannot be written: %v", err)
		}
		defer f.Close()
		results = f
	}
	if o.soak.For > 0 {
		report := conformance.Soak(ctx, suiteConfig(o.url), o.soak)
		if report.Error == "" {
			fmt.Fprintln(lines, report)
		}
		lines.Flush()
		return deliver(ctx, out, results, report, report.Error)
	}
	cfg, closeProxies, err := proxiedConfig(o.url)
	if err != nil {
		return failf(exitFailed, "%v", err)
	}
	defer closeProxies()
	report := runSuite(ctx, lines, cfg, o)
	return deliver(ctx, out, results, report, report.Error)
}

func (o conformOptions) wants(k conformance.Case) bool {
	return (o.match == nil || o.match.MatchString(k.ID())) && (!o.short || k.Quick)
}

func (o conformOptions) cases() []conformance.Case {
	return slices.DeleteFunc(conformance.Cases(), func(k conformance.Case) bool { return !o.wants(k) })
}

// listCases writes the selected cases with their rules and needs.
func listCases(w io.Writer, o conformOptions) error {
	var b strings.Builder
	for _, k := range o.cases() {
		fmt.Fprintf(&b, "%s\n    %s\n", k.ID(), k.Rule)
		if len(k.Needs) > 0 {
			fmt.Fprintf(&b, "    needs %s\n", strings.Join(k.Needs, ", "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// deliver writes the JSON report, closes it if it is a file, and returns the exit code as an error.
func deliver(ctx context.Context, out *bufio.Writer, w io.Writer, report interface{ OK() bool }, failed string) error {
	if failed != "" {
		return failf(exitUnavailable, "%s", failed)
	}
	err := cmp.Or(encode(w, report), out.Flush())
	if file, ok := w.(io.Closer); ok {
		err = cmp.Or(err, file.Close())
	}
	if err != nil {
		return failf(exitFailed, "the report cannot be written: %v", err)
	}
	if interrupted := interruption(ctx); interrupted != nil || report.OK() {
		return interrupted
	}
	return exitWith(exitFailed)
}

// suiteConfig configures the suite for the server of a valid URL.
func suiteConfig(rawURL string) conformance.Config {
	u, _ := url.Parse(rawURL)
	onSession := func(s lockport.Scheme) bool { return s.Name == u.Scheme && s.Capabilities.FixedTTL > 0 }
	if urlTTL(rawURL) == 0 && slices.ContainsFunc(lockport.DefaultMux().Schemes(), onSession) {
		q := u.Query()
		q.Set("ttl", "4s") // the smallest that ZooKeeper grants by default: many cases wait for a TTL to pass
		u.RawQuery = q.Encode()
		rawURL = u.String()
	}
	return conformance.Config{Open: openTarget, Target: rawURL, MinTTL: urlTTL(rawURL), Local: u.Scheme == "memory"}
}

// proxiedConfig is suiteConfig with a proxy before each server, if possible. The proxies break connections without knowing the protocol.
func proxiedConfig(rawURL string) (cfg conformance.Config, closeProxies func(), err error) {
	cfg = suiteConfig(rawURL)
	through, all, err := faultproxy.ForURL(cfg.Target)
	if err != nil || len(all) == 0 {
		return cfg, func() {}, err
	}
	cfg.Direct, cfg.Target, cfg.Faults = cfg.Target, through, all.Faults(nil)
	if len(all) > 1 { // a fault of one request needs a single server: with several, its server is unknown
		cfg.Faults.DropReply, cfg.Faults.CutAfter = nil, nil
	}
	return cfg, all.Close, nil
}

// runSuite runs the selected cases. It writes a line for each when it ends, and a summary.
func runSuite(ctx context.Context, w *bufio.Writer, cfg conformance.Config, o conformOptions) conformance.Report {
	defer w.Flush()
	total, done := len(o.cases()), 0
	progress := func(r conformance.Result) {
		defer w.Flush()
		done++
		fmt.Fprintf(w, "[%*d/%d] %-7s %s", len(fmt.Sprint(total)), done, total, r.Outcome, r.ID())
		if r.Outcome == conformance.NotRun {
			fmt.Fprintf(w, ": %s\n", r.Reason)
			return
		}
		fmt.Fprintf(w, " (%v)\n", r.Took.Round(time.Millisecond))
		if r.Outcome == conformance.Fail {
			fmt.Fprintf(w, "    %s\n", r.Message())
		}
	}
	r := conformance.Run(ctx, cfg, conformance.Match(o.wants), conformance.Progress(progress))
	if r.Error == "" {
		fmt.Fprintf(w, "\n%s: %d passed, %d failed, %d not run, in %v (TTL %v)\n",
			r.Backend, r.Passed, r.Failed, r.NotRun, r.Took.Round(100*time.Millisecond), r.TTL)
	}
	return r
}
