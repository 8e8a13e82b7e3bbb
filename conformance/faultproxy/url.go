package faultproxy

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/lockport/lockport/internal/lockurl"
)

// defaultPorts are the default ports of URL schemes of TCP servers without TLS, whose addresses can be replaced by those of
// proxies. A URL names one server, or several separated by commas.
var defaultPorts = map[string]string{
	"redis": "6379", "redlock": "6379", "etcd": "2379", "zookeeper": "2181", "postgres": "5432", "postgresql": "5432", "mysql": "3306",
	"table+postgres": "5432", "table+mysql": "3306", "nats": "4222",
}

// ForURL makes a proxy before each server of a lockport URL, for the caller to Close. through is the URL with their addresses. If
// no proxy can stand before all servers (a file, Sentinel, addresses in parameters, a certificate of the server's name), through
// is rawURL and all is empty. Errors show no password.
func ForURL(rawURL string) (through string, all Group, err error) {
	u, err := url.Parse(rawURL)
	if err != nil { // err quotes the URL
		return "", nil, errors.New("faultproxy: the URL is malformed")
	}
	port, ok := defaultPorts[u.Scheme]
	params := lockurl.Of(u)
	verified := params.Text("servername") == "" && (params.Text("tls") == "true" || params.Text("sslmode") == "verify-full")
	if !ok || u.Hostname() == "" || slices.ContainsFunc([]string{"addr", "host", "port"}, params.Has) || verified {
		return rawURL, nil, nil
	}
	servers := params.Hosts(port)
	if _, err := params.Rest(); err != nil {
		return "", nil, err
	}
	var addrs []string
	for _, server := range servers {
		p, err := New(server)
		if err != nil {
			all.Close()
			return "", nil, err
		}
		all, addrs = append(all, p), append(addrs, p.Addr())
	}
	u.Host = strings.Join(addrs, ",")
	return u.String(), all, nil
}
