// Package compare shows what distributed locks cost, and what becomes of them when something goes wrong, side by side on real servers: what
// "lockport compare" does. It starts the servers itself, as children of this process, or measures a user's own.
//
// Package hazards plays the hazards, this package has the costs measured by package measure, and package report shows both.
package compare
