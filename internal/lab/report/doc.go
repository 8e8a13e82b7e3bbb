// Package report is what a comparison of lock backends has observed, and how it is shown: one HTML file that opens offline, Markdown with pictures,
// JSON, and text for a terminal. It starts nothing and measures nothing.
package report
