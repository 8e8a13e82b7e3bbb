// Package bench measures lockport and other people's libraries side by side, on the same servers, in the same run: a file for each library. It is
// a module of its own, so that nobody who uses lockport depends on them.
//
//	go test -run '^$' -bench .
//
// Figures of one run can be compared with each other, not with those of another machine or day: the libraries take turns, many short ones,
// since neighbours disturb some of them.
package bench
