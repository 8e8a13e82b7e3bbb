package promlock_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lockport/lockport"
	promlock "github.com/lockport/lockport/adapters/prometheus"
	"github.com/lockport/lockport/backend/memory"
)

func Example() {
	metrics, registry := promlock.New(promlock.Options{}), prometheus.NewRegistry()
	registry.MustRegister(metrics)
	locker, _ := memory.New(memory.Options{}, lockport.Observe(metrics.Hooks())) // or redis.New, …
	defer locker.Close()

	err := lockport.Do(context.Background(), locker, "nightly-report", func(context.Context, *lockport.Lock) error {
		page := httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
		for line := range strings.Lines(page.Body.String()) {
			if strings.HasPrefix(line, "lockport_held") {
				fmt.Print(line)
			}
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// lockport_held{backend="memory"} 1
	// <nil>
}
