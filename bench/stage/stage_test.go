package stage_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/bench/stage"
	"github.com/lockport/lockport/internal/lab/servers"
)

// The servers that are started use processor time and memory.
func TestLoad(t *testing.T) {
	for _, f := range stage.Families {
		if f.Name != "redlock" && f.Name != "file" {
			continue // the others are started likewise, by the tests of package lib
		}
		s, err := f.Start(t.Context())
		servers.NeedInstalled(t, err, f.Kind)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		cpu, memory, err := s.Load(t.Context())
		require.NoError(t, err)
		if f.Kind == "" {
			require.Equal(t, time.Duration(0), cpu)
			continue
		}
		require.Regexp(t, `^redlock://(127\.0\.0\.1:[0-9]+,){4}127\.0\.0\.1:[0-9]+$`, s.URL)
		require.Positive(t, cpu)
		require.Positive(t, memory)
	}
}
