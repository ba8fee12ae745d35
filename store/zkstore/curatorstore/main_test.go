// SPDX-License-Identifier: Apache-2.0

package curatorstore_test

import (
	"os"
	"sync"
	"testing"

	"github.com/fencelock/fencelock/internal/servers"
)

// common is the ensemble of the tests that do it no harm, each with its own paths: to start one takes
// seconds.
var common struct {
	once sync.Once
	*servers.Ensemble
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if common.Ensemble != nil {
		common.Stop()
	}
	os.Exit(code)
}

// shared returns the common ensemble.
func shared(t testing.TB) *servers.Ensemble {
	t.Helper()
	common.once.Do(func() { common.Ensemble, common.err = servers.ZooKeeper(1) })
	return servers.Test(t, func() (kept, error) { return kept{common.Ensemble}, common.err }).Ensemble
}

// kept is an ensemble that does not end with a test.
type kept struct{ *servers.Ensemble }

// Stop does nothing: TestMain ends it.
func (kept) Stop() {}
