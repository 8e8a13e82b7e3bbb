// Package crew has worker processes: the program itself again, told what to do in lines of JSON on standard input, and answering on standard output.
// They carry out several orders at a time, outlive neither their parent nor its wish for them, and let Ctrl-C go by, so that what they hold is released in
// order. It is for what measures.
package crew
