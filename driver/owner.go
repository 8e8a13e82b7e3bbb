package driver

import (
	"strconv"
	"strings"
)

// ownerIDLength is the number of hexadecimal digits before the colon of an owner id.
const ownerIDLength = 32

// OwnerClient returns the part of an owner id that is the same for all claims of one client: host, process id, label and a random part. People read
// it, and drivers address messages by it. It is empty if owner has another form.
func OwnerClient(owner string) string {
	id, client, _ := strings.Cut(owner, ":")
	if len(id) != ownerIDLength {
		return ""
	}
	return client
}

// Claimant describes to people who made a claim.
type Claimant struct {
	Host  string
	PID   int
	Label string // the program's name, unless it chose another
}

// OwnerClaimant parses the Claimant from an owner id. false: the id does not have the client's form.
func OwnerClaimant(owner string) (Claimant, bool) {
	parts := strings.Split(OwnerClient(owner), "/")
	if len(parts) != 4 {
		return Claimant{}, false
	}
	pid, err := strconv.Atoi(parts[1])
	return Claimant{Host: parts[0], PID: pid, Label: parts[2]}, err == nil && pid > 0
}
