// Package report holds the observations of a comparison of lock backends, and renders them: as one HTML file that opens offline,
// pictures, JSON, and text for a terminal. It starts nothing and measures nothing.
package report
