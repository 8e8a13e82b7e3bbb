// Package bounded has the contexts of single requests: each has a deadline from its beginning, but a channel and a timer only once somebody asks
// for its Done. Most requests are answered before anybody would have to be told, and a timer that is made and stopped for each costs more
// than the rest of a client's bookkeeping.
package bounded
