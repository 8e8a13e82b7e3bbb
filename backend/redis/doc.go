// Package redis is stub doc.
package redis
