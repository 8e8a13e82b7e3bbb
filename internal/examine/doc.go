// Package examine is what the backends' answers to the command's doctor have in common: notices that several of them give, and what is known of
// versions of servers. It asks nothing itself.
package examine
