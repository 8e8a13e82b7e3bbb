// Package compare shows, side by side on real servers, what distributed locks cost and how they fail: it implements "lockport compare". It starts the
// servers itself, as children of this process, or measures a user's own.
//
// Package hazards plays the hazards, package measure measures the costs, and package report renders both.
package compare
