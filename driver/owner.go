package driver

import (
	"strconv"
	"strings"
)

// ownerIDLength is the number of hexadecimal digits before the colon of an owner id.
const ownerIDLength = 32

// OwnerClient returns the part of an owner id that is the same for all claims of one client: host, process id, label
// and a random part, for people to read and for drivers to address messages by. Empty if owner is not of that form.
func OwnerClient(owner string) string {
	if len(owner) > ownerIDLength && owner[ownerIDLength] == ':' && !strings.ContainsAny(owner[:ownerIDLength], ":") {
		return owner[ownerIDLength+1:]
	}
	return ""
}

// Claimant is who made a claim, for people.
type Claimant struct {
	Host  string
	PID   int
	Label string // the program's name, unless it chose another
}

// OwnerClaimant reads who made the claim of an owner id. false: it is not of the form that the client gives.
func OwnerClaimant(owner string) (Claimant, bool) {
	parts := strings.Split(OwnerClient(owner), "/")
	if len(parts) != 4 {
		return Claimant{}, false
	}
	pid, err := strconv.Atoi(parts[1])
	return Claimant{Host: parts[0], PID: pid, Label: parts[2]}, err == nil && pid > 0
}
