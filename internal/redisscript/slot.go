package redisscript

import (
	"strconv"
	"sync"
)

const slots = 16384 // of a Redis Cluster

// LastToken is the key of the last token drawn on the server of the lock with key. A single server has one such key; a Cluster has one per
// slot, whose hash tag is the least number that hashes to it. No lock or side key equals it.
func LastToken(key string, cluster bool) string {
	if !cluster {
		return Side("", "last-token")
	}
	return Side(strconv.Itoa(int(slotTags()[slot(key)])), "last-token")
}

// slotTags has for each slot the least number whose digits hash to it.
var slotTags = sync.OnceValue(func() *[slots]int32 {
	var tags [slots]int32
	var found [slots]bool
	for n, missing := int32(0), slots; missing > 0; n++ {
		if s := slot(strconv.Itoa(int(n))); !found[s] {
			found[s], tags[s], missing = true, n, missing-1
		}
	}
	return &tags
})

// slot is the hash slot of a key without braces: CRC16 (XMODEM), per the Redis Cluster specification.
func slot(key string) int {
	crc := uint16(0)
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			crc = crc<<1 ^ crc>>15*0x1021 // the polynomial, if the top bit is set
		}
	}
	return int(crc % slots)
}
