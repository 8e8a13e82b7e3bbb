package redisscript

import (
	"strconv"
	"sync"
)

// slots is how many slots a Redis Cluster has.
const slots = 16384

// LastToken is the key of the last token that was drawn where the lock with the key is: one for the server or, in a Cluster, one for the lock's slot. There
// its hash tag is the least number that has the slot. No lock and no side key has the same key.
func LastToken(key string, cluster bool) string {
	if !cluster {
		return Side("", "last-token")
	}
	return Side(strconv.Itoa(int(slotTags()[slot(key)])), "last-token")
}

// slotTags are, for each slot, the least number whose digits have it.
var slotTags = sync.OnceValue(func() *[slots]int32 {
	var tags [slots]int32
	found := make(map[int]bool, slots)
	for n := int32(0); len(found) < slots; n++ {
		if s := slot(strconv.Itoa(int(n))); !found[s] {
			found[s], tags[s] = true, n
		}
	}
	return &tags
})

// slot is the slot of a key without braces: its CRC16 by XMODEM, as the Cluster specification has it.
func slot(key string) int {
	crc := uint16(0)
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc % slots)
}
