// Package child starts processes that do not outlive this one, whatever becomes of it, and stops and continues them.
package child
