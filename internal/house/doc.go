// Package house tests the repository's rules that no compiler checks: who may import whom, who may exit or read the environment, and what every
// backend must have. It has tests only. They read the source of the whole module, for every system, and print the rule that a file breaks. They do
// not check nested modules.
package house
