// Package report is what a comparison of lock backends has observed, and how it is shown: one HTML file that opens offline, Markdown, JSON, and
// the raw samples as CSV. It starts nothing and measures nothing.
package report
