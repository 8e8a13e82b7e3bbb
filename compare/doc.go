// Package compare shows what distributed locks cost, and what becomes of them when something goes wrong, side by side on real servers: what
// "lockport compare" does. It starts the servers itself, as children of this process, or measures a user's own.
//
// The hazards are played by package hazards, the costs are measured by package costs, and package report shows both.
package compare
