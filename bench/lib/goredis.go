package lib

import (
	"fmt"
	"net/url"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// poolSize is that of every go-redis client but lockport's own: with go-redis' own setting, ten for each core, goroutines would wait for connections,
// and some of them in vain.
const poolSize = 64

// goRedis are clients of the servers that a URL names: one, or those of redlock://host,host.
func goRedis(rawURL string) ([]*goredis.Client, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	var clients []*goredis.Client
	for _, host := range strings.Split(u.Host, ",") {
		one := *u
		one.Scheme, one.Host = "redis", host
		o, err := goredis.ParseURL(one.String())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.Redacted(), err)
		}
		o.PoolSize = poolSize
		clients = append(clients, goredis.NewClient(o))
	}
	return clients, nil
}
